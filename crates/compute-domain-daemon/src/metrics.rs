//! The metrics of a daemon.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// The metrics of a daemon. A clone shares its registry.
#[derive(Clone, Debug)]
pub struct DaemonMetrics {
    registry: Registry,
    requests: IntCounterVec,
    imex_starts: IntCounter,
}

impl DaemonMetrics {
    /// New metrics in their own registry.
    ///
    /// # Errors
    /// Never, because the names are valid and different.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            Opts::new(
                "grove_daemon_requests_total",
                "Requests of a daemon to the API server per verb, kind and result: success, or the status code (0 without a response).",
            ),
            &["verb", "kind", "result"],
        )?;
        let imex_starts = IntCounter::new("grove_imex_starts_total", "Starts of the IMEX process.")?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(imex_starts.clone()))?;
        Ok(Self { registry, requests, imex_starts })
    }

    /// The registry of the metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts a request.
    pub fn record_request(&self, verb: &str, kind: &str, result: &str) {
        self.requests.with_label_values(&[verb, kind, result]).inc();
    }

    /// The number of requests with this result.
    pub fn requests(&self, verb: &str, kind: &str, result: &str) -> u64 {
        self.requests.with_label_values(&[verb, kind, result]).get()
    }

    /// Counts a start of the IMEX process.
    pub fn record_imex_start(&self) {
        self.imex_starts.inc();
    }
}
