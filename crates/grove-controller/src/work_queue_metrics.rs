//! The metrics of a work queue, with client-go's names.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grove_runtime::metrics::register;
use parking_lot::Mutex;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tokio::time::Instant;

use crate::state_metrics::EntryCount;

/// Buckets of client-go's work queue histograms: 10 ns to 1000 s.
const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// The metrics of one queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    normal: IntGauge,
    low: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    in_flight: InFlight,
    cooldowns: EntryCount,
    delayed_keys: EntryCount,
}

/// The metrics of all work queues of a process.
#[derive(Clone, Debug)]
pub(crate) struct WorkQueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    in_flight: Arc<Mutex<BTreeMap<String, InFlight>>>,
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
        let in_flight: Arc<Mutex<BTreeMap<_, _>>> = Arc::default();
        registry.register(Box::new(InFlightCollector::new(Arc::clone(&in_flight))?))?;
        Ok(Self {
            depth: register(registry, IntGaugeVec::new(depth, &["name", "priority"])?)?,
            adds: register(registry, IntCounterVec::new(adds, &["name"])?)?,
            retries: register(registry, IntCounterVec::new(retries, &["name"])?)?,
            queue_duration: register(registry, HistogramVec::new(queue_duration, &["name"])?)?,
            work_duration: register(registry, HistogramVec::new(work_duration, &["name"])?)?,
            in_flight,
        })
    }

    /// The metrics of the queue of this controller.
    pub(crate) fn of_queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics {
            normal: self.depth.with_label_values(&[name, "normal"]),
            low: self.depth.with_label_values(&[name, "low"]),
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            queue_duration: self.queue_duration.with_label_values(&[name]),
            work_duration: self.work_duration.with_label_values(&[name]),
            in_flight: self.in_flight.lock().entry(name.to_owned()).or_default().clone(),
            cooldowns: EntryCount::default(),
            delayed_keys: EntryCount::default(),
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

    /// The processing of an item that was queued for `waited` starts.
    pub(crate) fn started(&self, waited: Duration, now: Instant) {
        self.queue_duration.observe(waited.as_secs_f64());
        self.in_flight.0.lock().push(now);
    }

    /// The processing of an item that started at `since` ends.
    pub(crate) fn finished(&self, since: Instant, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
        let mut in_flight = self.in_flight.0.lock();
        if let Some(index) = in_flight.iter().position(|other| *other == since) {
            in_flight.swap_remove(index);
        }
    }

    /// The number of cooldowns, which `grove_state_entries` contains.
    pub(crate) fn cooldowns(&self) -> &EntryCount {
        &self.cooldowns
    }

    /// The number of delayed keys, which `grove_state_entries` contains. The depth contains only those with a status.
    pub(crate) fn delayed_keys(&self) -> &EntryCount {
        &self.delayed_keys
    }

    pub(crate) fn set_depth(&self, normal: usize, low: usize) {
        self.normal.set(i64::try_from(normal).unwrap_or(i64::MAX));
        self.low.set(i64::try_from(low).unwrap_or(i64::MAX));
    }
}

/// When the processing of each item in progress started. A clone shares it.
#[derive(Clone, Debug, Default)]
struct InFlight(Arc<Mutex<Vec<Instant>>>);

/// Computes the ages of the items in progress when the metrics are scraped.
struct InFlightCollector {
    queues: Arc<Mutex<BTreeMap<String, InFlight>>>,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

impl InFlightCollector {
    fn new(queues: Arc<Mutex<BTreeMap<String, InFlight>>>) -> Result<Self, prometheus::Error> {
        let unfinished = Opts::new(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work is in progress and has not been observed by work_duration",
        );
        let longest = Opts::new(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
        );
        Ok(Self {
            queues,
            unfinished: GaugeVec::new(unfinished, &["name"])?,
            longest: GaugeVec::new(longest, &["name"])?,
        })
    }
}

impl Collector for InFlightCollector {
    fn desc(&self) -> Vec<&Desc> {
        [&self.unfinished, &self.longest].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        for (name, in_flight) in self.queues.lock().iter() {
            let ages: Vec<_> = in_flight.0.lock().iter().map(|since| now.duration_since(*since)).collect();
            let longest = ages.iter().max().copied().unwrap_or_default();
            self.unfinished.with_label_values(&[name]).set(ages.iter().sum::<Duration>().as_secs_f64());
            self.longest.with_label_values(&[name]).set(longest.as_secs_f64());
        }
        [&self.unfinished, &self.longest].into_iter().flat_map(Collector::collect).collect()
    }
}
