//! Counters of what the service does, measured by guards that no code path can forget.

use std::time::{Duration, Instant};

use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// The service's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_seconds: HistogramVec,
    writes: IntCounterVec,
    watch_failures: IntCounterVec,
    relists: IntCounterVec,
    leading: IntGaugeVec,
    configuration: IntGaugeVec,
}

impl Metrics {
    /// Fresh metrics in a registry of their own.
    pub fn new() -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let metrics = Self {
            registry: Registry::new(),
            reconciles: counter(
                "grove_reconciles_total",
                "Finished reconciliations by controller and result: ok, revisit (at a known time), error, cancelled.",
                &["controller", "result"],
            )?,
            reconcile_seconds: HistogramVec::new(
                HistogramOpts::new(
                    "grove_reconcile_duration_seconds",
                    "Time from the start of a reconciliation to its end.",
                ),
                &["controller"],
            )?,
            writes: counter(
                "grove_writes_total",
                "Writes to the API server by verb, kind and result: ok, or the status code (0 when there was no answer).",
                &["verb", "kind", "result"],
            )?,
            watch_failures: counter(
                "grove_watch_failures_total",
                "Watches and lists that failed, by kind.",
                &["kind"],
            )?,
            relists: counter("grove_lists_total", "Complete lists of a kind.", &["kind"])?,
            // The name and the meaning that the Go client gives it.
            leading: IntGaugeVec::new(
                Opts::new("leader_election_master_status", "1 if this replica holds the lease, 0 if it stands by."),
                &["name"],
            )?,
            configuration: IntGaugeVec::new(
                Opts::new(
                    "grove_config_info",
                    "1; the hash is the beginning of the SHA-256 of the configuration file.",
                ),
                &["hash"],
            )?,
        };
        for family in [&metrics.reconciles, &metrics.writes, &metrics.watch_failures, &metrics.relists] {
            metrics.registry.register(Box::new(family.clone()))?;
        }
        for family in [&metrics.leading, &metrics.configuration] {
            metrics.registry.register(Box::new(family.clone()))?;
        }
        metrics.registry.register(Box::new(metrics.reconcile_seconds.clone()))?;
        Ok(metrics)
    }

    /// Where further metrics can be registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics in the Prometheus text format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        let mut text = vec![];
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Measures one reconciliation until the guard is dropped.
    pub fn reconcile(&self, controller: &'static str) -> Reconciling {
        Reconciling { metrics: self.clone(), controller, result: "cancelled", started: Instant::now() }
    }

    /// Counts one write.
    pub fn wrote(&self, verb: &str, kind: &str, result: &str) {
        self.writes.with_label_values(&[verb, kind, result]).inc();
    }

    /// Says whether this replica holds the lease of that name.
    pub fn leads(&self, lease: &str, leads: bool) {
        self.leading.with_label_values(&[lease]).set(leads.into());
    }

    /// Says which configuration file the service runs with.
    pub fn configured(&self, hash: &str) {
        self.configuration.with_label_values(&[hash]).set(1);
    }

    /// Counts one failed list or watch.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_failures.with_label_values(&[kind]).inc();
    }

    /// Counts one complete list.
    pub fn listed(&self, kind: &str) {
        self.relists.with_label_values(&[kind]).inc();
    }
}

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Only an event brings the object back.
    Done,
    /// The object is to be looked at again at a known time.
    Revisit,
    /// It is tried again.
    Failed,
}

/// One reconciliation on its way.
#[derive(Debug)]
pub struct Reconciling {
    metrics: Metrics,
    controller: &'static str,
    result: &'static str,
    started: Instant,
}

impl Reconciling {
    /// Says how it ended; unsaid, it counts as cancelled.
    pub fn ended(&mut self, ending: Ending) {
        self.result = match ending {
            Ending::Done => "ok",
            Ending::Revisit => "revisit",
            Ending::Failed => "error",
        };
    }

    /// How long it has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Reconciling {
    fn drop(&mut self) {
        let Metrics { reconciles, reconcile_seconds, .. } = &self.metrics;
        reconciles.with_label_values(&[self.controller, self.result]).inc();
        reconcile_seconds.with_label_values(&[self.controller]).observe(self.started.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_count_whatever_happens() {
        let metrics = Metrics::new().unwrap();
        metrics.reconcile("sets").ended(Ending::Done);
        drop(metrics.reconcile("sets"));
        metrics.wrote("create", "Pod", "ok");
        let text = metrics.render().unwrap();
        for line in [
            r#"grove_reconciles_total{controller="sets",result="ok"} 1"#,
            r#"grove_reconciles_total{controller="sets",result="cancelled"} 1"#,
            r#"grove_reconcile_duration_seconds_count{controller="sets"} 2"#,
            r#"grove_writes_total{kind="Pod",result="ok",verb="create"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
