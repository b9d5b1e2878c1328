//! The metrics of the webhooks. Names and labels are those of controller-runtime where it has the metric.

use std::time::Instant;

use axum::http::StatusCode;
use grove_api_types::admission::Rule;
use grove_runtime::metrics::register;
use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::webhook::Webhook;

/// Seconds, from a tenth of a millisecond to the timeout of the API server.
const BUCKETS: [f64; 10] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 10.0];
/// The code of a request that the client cancels before it gets a response. nginx and others use the same code.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The metrics of this service. Clones share the same values.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    requests: IntCounterVec,
    latency: HistogramVec,
    in_flight: IntGaugeVec,
    decisions: IntCounterVec,
    violations: IntCounterVec,
    bytes_in_flight: IntGauge,
    connections: IntGauge,
    bodies: IntGauge,
    certificate_expiry: Gauge,
}

/// The decision of an admission response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Allowed without a patch.
    Allowed,
    /// Allowed with a patch.
    Patched,
    Denied,
}

impl Decision {
    fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Denied => "denied",
        }
    }
}

impl WebhookMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            register(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name: &str, help: &str| register(registry, IntGauge::new(name, help)?);
        let latency = HistogramOpts::new(
            "controller_runtime_webhook_latency_seconds",
            "Latency of admission requests in seconds, by the path of the webhook.",
        );
        let in_flight = Opts::new(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests that have no response yet, by the path of the webhook.",
        );
        let certificate_expiry = Gauge::new(
            "grove_webhook_certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate, in seconds since 1970.",
        );
        Ok(Self {
            requests: counter(
                "controller_runtime_webhook_requests_total",
                "Admission requests by path and HTTP status code; 499: the client cancelled the request.",
                &["webhook", "code"],
            )?,
            latency: register(registry, HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["webhook"])?)?,
            in_flight: register(registry, IntGaugeVec::new(in_flight, &["webhook"])?)?,
            decisions: counter(
                "grove_webhook_decisions_total",
                "Admission responses by the path of the webhook and the decision: allowed, patched or denied.",
                &["webhook", "decision"],
            )?,
            violations: counter(
                "grove_webhook_rule_violations_total",
                "Field errors in denied requests, by rule; docs/admission.md lists the rules.",
                &["rule"],
            )?,
            bytes_in_flight: gauge(
                "grove_webhook_request_bytes_in_flight",
                "Bytes of the request bodies that are being received or parsed.",
            )?,
            connections: gauge("grove_webhook_connections", "Connections that were accepted and not closed.")?,
            bodies: gauge("grove_webhook_bodies", "Request bodies that are being received or parsed.")?,
            certificate_expiry: register(registry, certificate_expiry?)?,
        })
    }

    /// Starts the measurement of one request. It ends when the timer is dropped.
    pub(crate) fn start_request(&self, webhook: Webhook) -> RequestTimer {
        self.in_flight.with_label_values(&[webhook.path()]).inc();
        RequestTimer { metrics: self.clone(), webhook, code: None, start: Instant::now() }
    }

    /// The gauge of the bytes in memory.
    pub(crate) fn bytes_in_flight(&self) -> IntGauge {
        self.bytes_in_flight.clone()
    }

    /// The gauge of the connections.
    pub(crate) fn connections(&self) -> IntGauge {
        self.connections.clone()
    }

    /// The gauge of the request bodies in memory.
    pub(crate) fn bodies(&self) -> IntGauge {
        self.bodies.clone()
    }

    pub(crate) fn count_decision(&self, webhook: Webhook, decision: Decision) {
        self.decisions.with_label_values(&[webhook.path(), decision.label()]).inc();
    }

    pub(crate) fn count_violation(&self, rule: Rule) {
        self.violations.with_label_values(&[rule.name()]).inc();
    }

    /// Records when the serving certificate expires, in seconds since 1970.
    pub(crate) fn set_certificate_expiry(&self, seconds: i64) {
        #[expect(clippy::cast_precision_loss, reason = "no certificate lives for 2^53 seconds")]
        self.certificate_expiry.set(seconds as f64);
    }
}

/// The measurement of one request.
pub(crate) struct RequestTimer {
    metrics: WebhookMetrics,
    webhook: Webhook,
    code: Option<StatusCode>,
    start: Instant,
}

impl RequestTimer {
    /// Sets the status code of the response. Without one, the request counts as cancelled by the client.
    pub(crate) fn set_code(&mut self, code: StatusCode) {
        self.code = Some(code);
    }

    fn final_code(&self) -> u16 {
        let code = if std::thread::panicking() { Some(StatusCode::INTERNAL_SERVER_ERROR) } else { self.code };
        code.map_or(CLIENT_CLOSED_REQUEST, |code| code.as_u16())
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        let WebhookMetrics { requests, latency, in_flight, .. } = &self.metrics;
        let path = self.webhook.path();
        requests.with_label_values(&[path, &self.final_code().to_string()]).inc();
        latency.with_label_values(&[path]).observe(self.start.elapsed().as_secs_f64());
        in_flight.with_label_values(&[path]).dec();
    }
}
