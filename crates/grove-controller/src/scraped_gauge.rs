//! A gauge with one label. Its values are computed when the metrics are scraped.

use prometheus::{
    IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Computes a value of the gauge.
pub type GaugeValue = Box<dyn Fn() -> usize + Send + Sync>;

/// Registers a gauge with the label `label`. `values` has a function for each value of the label.
///
/// # Errors
/// If a metric of this name is already registered.
pub fn register_scraped_gauge(
    registry: &Registry,
    (name, help): (&str, &str),
    label: &str,
    values: Vec<(&'static str, GaugeValue)>,
) -> Result<(), prometheus::Error> {
    let gauge = IntGaugeVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(ScrapedGauge { gauge, values }))
}

struct ScrapedGauge {
    gauge: IntGaugeVec,
    values: Vec<(&'static str, GaugeValue)>,
}

impl Collector for ScrapedGauge {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (label, value) in &self.values {
            self.gauge.with_label_values(&[*label]).set(i64::try_from(value()).unwrap_or(i64::MAX));
        }
        self.gauge.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use grove_runtime::metrics::Metrics;

    use super::*;

    #[test]
    fn a_scrape_shows_the_current_values() {
        let (metrics, count) = (Metrics::new().unwrap(), Arc::new(AtomicUsize::new(0)));
        let current = Arc::clone(&count);
        let values: Vec<(_, GaugeValue)> =
            vec![("a", Box::new(move || current.load(Ordering::Relaxed))), ("b", Box::new(|| 7))];
        register_scraped_gauge(metrics.registry(), ("grove_test", "A test"), "level", values).unwrap();
        for expected in [0, 3] {
            count.store(expected, Ordering::Relaxed);
            let text = metrics.render().unwrap();
            let lines = [format!(r#"grove_test{{level="a"}} {expected}"#), r#"grove_test{level="b"} 7"#.to_owned()];
            assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        }
    }
}
