//! The metrics of a work queue, with client-go's names.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Buckets of client-go's work queue histograms: 10 ns to 1000 s.
const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// The metrics of one queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    reconciles: IntGauge,
    statuses: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
}

/// The metrics of all work queues of a process.
#[derive(Clone, Debug)]
pub(crate) struct WorkQueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
}

impl WorkQueueMetrics {
    /// Registers the metrics.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let depth = Opts::new("workqueue_depth", "Current depth of workqueue by workqueue and priority");
        let adds = Opts::new("workqueue_adds_total", "Total number of adds handled by workqueue");
        let retries = Opts::new("workqueue_retries_total", "Total number of retries handled by workqueue");
        let queue_duration = histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
        );
        let work_duration = histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
        );
        let metrics = Self {
            depth: IntGaugeVec::new(depth, &["name", "priority"])?,
            adds: IntCounterVec::new(adds, &["name"])?,
            retries: IntCounterVec::new(retries, &["name"])?,
            queue_duration: HistogramVec::new(queue_duration, &["name"])?,
            work_duration: HistogramVec::new(work_duration, &["name"])?,
        };
        registry.register(Box::new(metrics.depth.clone()))?;
        registry.register(Box::new(metrics.adds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.queue_duration.clone()))?;
        registry.register(Box::new(metrics.work_duration.clone()))?;
        Ok(metrics)
    }

    /// The metrics of the queue of this controller.
    pub(crate) fn of_queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics {
            reconciles: self.depth.with_label_values(&[name, "reconcile"]),
            statuses: self.depth.with_label_values(&[name, "status"]),
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            queue_duration: self.queue_duration.with_label_values(&[name]),
            work_duration: self.work_duration.with_label_values(&[name]),
        }
    }
}

fn histogram(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help).buckets(BUCKETS.to_vec())
}

impl QueueMetrics {
    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn started(&self, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    pub(crate) fn finished(&self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn set_depth(&self, reconciles: usize, statuses: usize) {
        self.reconciles.set(i64::try_from(reconciles).unwrap_or(i64::MAX));
        self.statuses.set(i64::try_from(statuses).unwrap_or(i64::MAX));
    }
}
