//! The metric `grove_state_entries`: the number of entries of each map that a service stores in memory per object. An entry ends with
//! its object at the latest. Only an orphan deletion is remembered for at least ten minutes after the deletion of its object, until
//! the next deletion. Without objects all other values are 0.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use prometheus::{
    IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// The name of a map, and a function that counts its entries.
pub type NamedCount<C> = (&'static str, fn(&C) -> usize);

/// Counts the entries of a map.
type Count = Box<dyn Fn() -> usize + Send + Sync>;

/// The number of entries of a map that only its owner can read. A clone shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryCount(Arc<AtomicUsize>);

impl EntryCount {
    pub(crate) fn set(&self, entries: usize) {
        self.0.store(entries, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The maps of a process. A clone shares them.
#[derive(Clone, Default)]
pub struct StateMetrics {
    maps: Arc<Mutex<Vec<StateMap>>>,
}

struct StateMap {
    controller: &'static str,
    name: &'static str,
    count: Count,
}

impl StateMetrics {
    /// Registers the metric.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = Opts::new(
            "grove_state_entries",
            "Entries of the maps that a service stores in memory per object, per controller and map",
        );
        let entries = IntGaugeVec::new(options, &["controller", "map"])?;
        let metrics = Self::default();
        registry.register(Box::new(StateCollector { maps: Arc::clone(&metrics.maps), entries }))?;
        Ok(metrics)
    }

    /// Adds a map. `count` returns the number of its entries when the metrics are scraped.
    pub fn add(&self, controller: &'static str, name: &'static str, count: impl Fn() -> usize + Send + Sync + 'static) {
        self.maps.lock().push(StateMap { controller, name, count: Box::new(count) });
    }

    /// Adds a map with a count that its owner updates.
    pub(crate) fn add_count(&self, controller: &'static str, name: &'static str, count: &EntryCount) {
        let count = count.clone();
        self.add(controller, name, move || count.get());
    }

    /// Adds maps of the `context` of a controller. The metrics do not keep the context alive.
    pub fn add_all<C>(&self, controller: &'static str, context: &Arc<C>, maps: &[NamedCount<C>])
    where
        C: Send + Sync + 'static,
    {
        for &(name, count) in maps {
            let context = Arc::downgrade(context);
            self.add(controller, name, move || context.upgrade().map_or(0, |context| count(&context)));
        }
    }
}

/// Counts the entries when the metrics are scraped.
struct StateCollector {
    maps: Arc<Mutex<Vec<StateMap>>>,
    entries: IntGaugeVec,
}

impl Collector for StateCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.entries.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for StateMap { controller, name, count } in self.maps.lock().iter() {
            self.entries.with_label_values(&[*controller, *name]).set(i64::try_from(count()).unwrap_or(i64::MAX));
        }
        self.entries.collect()
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::metrics::Metrics;

    use super::*;

    #[test]
    fn the_entries_are_counted_when_the_metrics_are_scraped() {
        let metrics = Metrics::new().unwrap();
        let state = StateMetrics::register(metrics.registry()).unwrap();
        let context = Arc::new(Mutex::new(vec![1, 2]));
        state.add_all("maps", &context, &[("numbers", |numbers| numbers.lock().len())]);
        let line = |count: usize| format!(r#"grove_state_entries{{controller="maps",map="numbers"}} {count}"#);
        assert!(metrics.render().unwrap().contains(&line(2)));
        context.lock().push(3);
        assert!(metrics.render().unwrap().contains(&line(3)));
        drop(context);
        assert!(metrics.render().unwrap().contains(&line(0)));
    }
}
