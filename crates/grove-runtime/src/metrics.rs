//! The metrics of a service. A metric that client-go or controller-runtime defines has the same name here.

use std::time::{Duration, Instant};

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, core::Collector};

use crate::{foreign_owners::ForeignOwners, health_and_metrics};

/// A delay of more than 100 ms shows that a computation blocked the thread of the leader election.
const RENEWAL_DELAY_BUCKETS: [f64; 6] = [0.001, 0.005, 0.02, 0.1, 1.0, 10.0];

/// The service's metrics. A clone shares its registry.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_errors: IntCounterVec,
    reconcile_time: HistogramVec,
    active_workers: IntGaugeVec,
    writes: IntCounterVec,
    informers: InformerMetrics,
    leader_status: IntGaugeVec,
    renewal_delay: HistogramVec,
    config: IntGaugeVec,
}

/// The metrics of lists, watches and caches, by kind.
#[derive(Clone, Debug)]
struct InformerMetrics {
    watch_failures: IntCounterVec,
    lists: IntCounterVec,
    watches: IntCounterVec,
    cache_objects: IntGaugeVec,
    unreadable_objects: IntGaugeVec,
    cache_index_values: IntGaugeVec,
    foreign_owners: ForeignOwners,
}

impl InformerMetrics {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| register_counter(registry, name, help, labels);
        let gauge = |name: &str, help: &str, labels: &[&str]| register_gauge(registry, name, help, labels);
        Ok(Self {
            watch_failures: counter("grove_watch_failures_total", "Failed lists and watches per kind.", &["kind"])?,
            lists: counter("reflector_lists_total", "Total number of lists by the reflector of a kind.", &["kind"])?,
            watches: counter(
                "reflector_watches_total",
                "Total number of watches by the reflector of a kind.",
                &["kind"],
            )?,
            cache_objects: gauge("grove_cache_objects", "Number of objects in the cache of a kind.", &["kind"])?,
            unreadable_objects: gauge(
                "grove_unreadable_objects",
                "Number of objects of a kind that exist and could not be decoded.",
                &["kind"],
            )?,
            cache_index_values: gauge(
                "grove_cache_index_values",
                "Number of values in an index of the cache of a kind.",
                &["kind", "index"],
            )?,
            foreign_owners: ForeignOwners::register(registry)?,
        })
    }
}

/// The name of a kind or of a resource in metrics, in logs and for readiness: with its group, unless Kubernetes or Grove defines it. Several
/// schedulers have a `PodGroup`.
pub fn name_with_group(name: &str, group: &str) -> String {
    let is_well_known = !group.contains('.') || group.ends_with(".k8s.io") || group.ends_with("grove.io");
    if is_well_known { name.to_owned() } else { format!("{name}.{group}") }
}

impl Metrics {
    /// New metrics in their own registry.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| register_counter(&registry, name, help, labels);
        let gauge = |name: &str, help: &str, labels: &[&str]| register_gauge(&registry, name, help, labels);
        let reconcile_time = HistogramOpts::new(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller.",
        );
        let renewal_delay = HistogramOpts::new(
            "leader_election_renewal_delay_seconds",
            "How late the renewals of the lease began: for how long their thread was blocked.",
        );
        let renewal_delay = renewal_delay.buckets(RENEWAL_DELAY_BUCKETS.to_vec());
        Ok(Self {
            reconciles: counter(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller and result: success, requeue_after, error or cancelled.",
                &["controller", "result"],
            )?,
            reconcile_errors: counter(
                "controller_runtime_reconcile_errors_total",
                "Total number of reconciliation errors per controller.",
                &["controller"],
            )?,
            reconcile_time: register(&registry, HistogramVec::new(reconcile_time, &["controller"])?)?,
            active_workers: gauge(
                "controller_runtime_active_workers",
                "Number of currently running reconciliations per controller.",
                &["controller"],
            )?,
            writes: counter(
                "grove_writes_total",
                "Writes to the API server per verb, kind and result: success, or the status code (0 without a response).",
                &["verb", "kind", "result"],
            )?,
            informers: InformerMetrics::register(&registry)?,
            leader_status: gauge(
                "leader_election_master_status",
                "1 if this replica holds the lease, 0 if it is a standby.",
                &["name"],
            )?,
            renewal_delay: register(&registry, HistogramVec::new(renewal_delay, &["name"])?)?,
            config: gauge(
                "grove_config_info",
                "Always 1. The label hash is the start of the SHA-256 of the configuration file.",
                &["hash"],
            )?,
            registry,
        })
    }

    /// The registry, for further metrics of the service.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics in the Prometheus text format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        health_and_metrics::render(&self.registry)
    }

    /// Measures one reconciliation until the timer is dropped.
    pub fn start_reconcile(&self, controller: &'static str) -> ReconcileTimer {
        self.active_workers.with_label_values(&[controller]).inc();
        ReconcileTimer { metrics: self.clone(), controller, result: None, started: Instant::now() }
    }

    /// Counts one write.
    pub fn record_write(&self, verb: &str, kind: &str, result: &str) {
        self.writes.with_label_values(&[verb, kind, result]).inc();
    }

    /// Records whether this replica holds the lease.
    pub fn set_leader(&self, lease: &str, is_leader: bool) {
        self.leader_status.with_label_values(&[lease]).set(is_leader.into());
    }

    /// Records how late a renewal of the lease began.
    pub fn observe_renewal_delay(&self, lease: &str, delay: Duration) {
        self.renewal_delay.with_label_values(&[lease]).observe(delay.as_secs_f64());
    }

    /// Records the hash of the configuration file that the service uses.
    pub fn set_config_hash(&self, hash: &str) {
        self.config.with_label_values(&[hash]).set(1);
    }

    /// Counts one failed list or watch.
    pub fn record_watch_failure(&self, kind: &str) {
        self.informers.watch_failures.with_label_values(&[kind]).inc();
    }

    /// Counts one complete list.
    pub fn record_list(&self, kind: &str) {
        self.informers.lists.with_label_values(&[kind]).inc();
    }

    /// Counts one watch.
    pub fn record_watch(&self, kind: &str) {
        self.informers.watches.with_label_values(&[kind]).inc();
    }

    /// The gauge of the number of objects in the cache of a kind.
    pub fn cache_objects(&self, kind: &str) -> IntGauge {
        self.informers.cache_objects.with_label_values(&[kind])
    }

    /// The gauge of the number of objects of a kind that could not be decoded.
    pub fn unreadable_objects(&self, kind: &str) -> IntGauge {
        self.informers.unreadable_objects.with_label_values(&[kind])
    }

    /// The metric about owner references between namespaces.
    pub(crate) fn foreign_owners(&self) -> &ForeignOwners {
        &self.informers.foreign_owners
    }

    /// The gauge of the number of values in an index of the cache of a kind.
    pub fn cache_index_values(&self, kind: &str, index: &str) -> IntGauge {
        self.informers.cache_index_values.with_label_values(&[kind, index])
    }
}

fn register_counter(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn register_gauge(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    register(registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

/// Registers a metric that the service defines itself, and returns it.
pub fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// The result of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// It succeeded; the next watch event enqueues the object again.
    Success,
    /// It succeeded; the object is enqueued again after a delay.
    RequeueAfter,
    /// It failed; the object is enqueued again with backoff.
    Error,
}

impl ReconcileResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

/// Measures one reconciliation. A timer that is dropped without a result counts as `cancelled`.
#[derive(Debug)]
pub struct ReconcileTimer {
    metrics: Metrics,
    controller: &'static str,
    result: Option<ReconcileResult>,
    started: Instant,
}

impl ReconcileTimer {
    /// Sets the result that the drop records.
    pub fn set_result(&mut self, result: ReconcileResult) {
        self.result = Some(result);
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        let (metrics, result) = (&self.metrics, self.result.map_or("cancelled", ReconcileResult::as_str));
        metrics.active_workers.with_label_values(&[self.controller]).dec();
        metrics.reconciles.with_label_values(&[self.controller, result]).inc();
        if self.result == Some(ReconcileResult::Error) {
            metrics.reconcile_errors.with_label_values(&[self.controller]).inc();
        }
        metrics.reconcile_time.with_label_values(&[self.controller]).observe(self.started.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reconciliation_is_counted_with_its_result() {
        let metrics = Metrics::new().unwrap();
        metrics.start_reconcile("sets").set_result(ReconcileResult::Success);
        metrics.start_reconcile("sets").set_result(ReconcileResult::Error);
        drop(metrics.start_reconcile("sets"));
        metrics.record_write("create", "Pod", "success");
        let text = metrics.render().unwrap();
        for line in [
            r#"controller_runtime_reconcile_total{controller="sets",result="success"} 1"#,
            r#"controller_runtime_reconcile_total{controller="sets",result="error"} 1"#,
            r#"controller_runtime_reconcile_total{controller="sets",result="cancelled"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="sets"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="sets"} 3"#,
            r#"controller_runtime_active_workers{controller="sets"} 0"#,
            r#"grove_writes_total{kind="Pod",result="success",verb="create"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
