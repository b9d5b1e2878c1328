//! The write latency of the API server, relative to its latency without load. A high latency delays events. It also delays
//! statuses that only show progress ([`StatusPolicy`](crate::status_policy::StatusPolicy)).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The API server is loaded while writes take on average more than this many times the lowest latency of their kind.
const LOADED_RATIO: f64 = 2.0;
/// The weight of the newest write in the moving averages.
const EWMA_ALPHA: f64 = 0.2;
/// The baseline of a kind of write is its lowest latency in this window and in the one before. So it adapts to a server that became slower
/// permanently.
const BASELINE_WINDOW: Duration = Duration::from_hours(1);
/// Without a write for this long the load is unknown. The interval doubles with each write after it that shows that the API server is
/// still loaded: under load, these writes are mostly statuses that only show progress.
const UNKNOWN_AFTER: Duration = Duration::from_millis(500);
/// The longest interval after which the load is unknown.
const MAX_UNKNOWN_AFTER: Duration = Duration::from_secs(4);
/// The longest delay between two events.
const MAX_DELAY: Duration = Duration::from_millis(250);

/// Measures the latency of writes. A clone shares its measurements.
#[derive(Clone, Debug, Default)]
pub struct ApiLatency(Arc<Mutex<Latencies>>);

#[derive(Debug, Default)]
struct Latencies {
    average: Option<Average>,
    /// The lowest latency in seconds, by kind of write. Without any load, a create of a small object is faster than a patch of a large one.
    lowest: BTreeMap<String, f64>,
    lowest_of_previous_window: BTreeMap<String, f64>,
    window_start: Option<Instant>,
    last_write: Option<Instant>,
    /// Zero before the first write.
    unknown_after: Duration,
}

/// Moving averages of the latest writes.
#[derive(Clone, Copy, Debug)]
struct Average {
    seconds: f64,
    /// The latency of a write, divided by the baseline of its kind.
    ratio: f64,
}

impl Latencies {
    fn rotate_window(&mut self, now: Instant) {
        let start = *self.window_start.get_or_insert(now);
        if now.duration_since(start) >= BASELINE_WINDOW {
            self.lowest_of_previous_window = std::mem::take(&mut self.lowest);
            self.window_start = Some(now);
        }
    }

    fn add(&mut self, kind: String, seconds: f64, now: Instant) {
        let previous = self.lowest_of_previous_window.get(&kind).copied().unwrap_or(f64::INFINITY);
        let lowest = self.lowest.entry(kind).or_insert(seconds);
        *lowest = lowest.min(seconds);
        let ratio = seconds / lowest.min(previous).max(f64::MIN_POSITIVE);
        let is_known = self.is_known(now);
        // An average of writes before such an interval does not show the load now.
        let average = self.average.filter(|_| is_known).unwrap_or(Average { seconds, ratio });
        let moved = |average: f64, newest: f64| average + EWMA_ALPHA * (newest - average);
        self.average = Some(Average { seconds: moved(average.seconds, seconds), ratio: moved(average.ratio, ratio) });
        self.last_write = Some(now);
        if !self.is_slow() {
            self.unknown_after = UNKNOWN_AFTER;
        } else if !is_known {
            self.unknown_after = (2 * self.unknown_after).clamp(UNKNOWN_AFTER, MAX_UNKNOWN_AFTER);
        }
    }

    /// Whether recent writes show the load.
    fn is_known(&self, now: Instant) -> bool {
        self.last_write.is_some_and(|last_write| now.duration_since(last_write) < self.unknown_after)
    }

    /// Whether the latest writes show that the API server is loaded.
    fn is_slow(&self) -> bool {
        self.average.is_some_and(|average| average.ratio > LOADED_RATIO)
    }

    /// The lowest latency of a write of any kind.
    fn lowest(&self) -> Option<f64> {
        self.lowest.values().chain(self.lowest_of_previous_window.values()).copied().reduce(f64::min)
    }
}

impl ApiLatency {
    /// Records the latency of a write that succeeded. The kind is its verb and the kind of the object; their number is bounded.
    pub fn observe(&self, kind: String, latency: Duration) {
        let mut latencies = self.0.lock();
        let now = Instant::now();
        latencies.rotate_window(now);
        latencies.add(kind, latency.as_secs_f64(), now);
    }

    /// Whether the API server is loaded: recent writes took more than [`LOADED_RATIO`] times as long as without load.
    /// The work queue reads this before a write of progress starts, and the status throttle before the request; neither measures.
    pub fn is_loaded(&self) -> bool {
        let latencies = self.0.lock();
        latencies.is_known(Instant::now()) && latencies.is_slow()
    }

    /// The delay after the publication of an event, which took `latency`: zero up to [`LOADED_RATIO`], then longer for a
    /// higher latency. A publication that took less than each write sent no request, and needs no delay.
    pub fn throttle_delay(&self, latency: Duration) -> Duration {
        let latencies = self.0.lock();
        let (Some(average), Some(lowest)) = (latencies.average, latencies.lowest()) else { return Duration::ZERO };
        if latency.as_secs_f64() < lowest {
            return Duration::ZERO;
        }
        let delay = average.seconds * (average.ratio - LOADED_RATIO).max(0.0);
        Duration::try_from_secs_f64(delay).unwrap_or(MAX_DELAY).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn observe(latency: &ApiLatency, kind: &str, latencies: impl IntoIterator<Item = u64>) {
        for milliseconds in latencies {
            latency.observe(kind.to_owned(), ms(milliseconds));
        }
    }

    fn delay_after(latencies: impl IntoIterator<Item = u64>) -> Duration {
        let latency = ApiLatency::default();
        observe(&latency, "create pods", latencies);
        latency.throttle_delay(ms(100))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_loaded_api_server_causes_a_delay() {
        assert_eq!(delay_after([]), Duration::ZERO, "no latency is known");
        assert_eq!(delay_after([100]), Duration::ZERO, "there is no baseline yet");
        assert_eq!(delay_after([9, 5, 7, 9]), Duration::ZERO);
        let busy = [5].into_iter().chain([20; 30]);
        assert_eq!(delay_after(busy.clone()).as_millis(), 39, "four times the baseline: two more than without load");
        assert_eq!(delay_after([5].into_iter().chain([500; 30])), MAX_DELAY);
        assert_eq!(delay_after(busy.chain([6; 10])), Duration::ZERO, "it is not loaded any more");
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_write_has_its_own_baseline() {
        let latency = ApiLatency::default();
        observe(&latency, "create services", [3]);
        observe(&latency, "patch podcliques", [10, 12, 11, 14, 12]);
        assert!(!latency.is_loaded(), "such a patch takes longer without load, too");
        observe(&latency, "create services", [9; 10]);
        assert!(latency.is_loaded());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loaded_api_server_receives_fewer_and_fewer_writes_that_measure_the_load() {
        let latency = ApiLatency::default();
        let observe = |latencies: &[u64]| observe(&latency, "create pods", latencies.iter().copied());
        observe(&[5]);
        observe(&[50; 30]);
        for interval in [500, 1000, 2000, 4000, 4000] {
            tokio::time::advance(ms(interval - 1)).await;
            assert!(latency.is_loaded(), "no write was sent for {} ms", interval - 1);
            tokio::time::advance(ms(1)).await;
            assert!(!latency.is_loaded(), "the load is unknown after {interval} ms");
            observe(&[50, 60]);
            assert!(latency.is_loaded());
        }
        tokio::time::advance(MAX_UNKNOWN_AFTER).await;
        observe(&[6]);
        assert!(!latency.is_loaded(), "one write shows that the load has ended");
        observe(&[50; 30]);
        assert!(latency.is_loaded());
        tokio::time::advance(UNKNOWN_AFTER).await;
        assert!(!latency.is_loaded(), "the load is new");
    }

    #[tokio::test(start_paused = true)]
    async fn the_baseline_adapts_to_an_api_server_that_became_slower_permanently() {
        let latency = ApiLatency::default();
        observe(&latency, "create pods", [5]);
        for is_delayed in [true, true, false] {
            observe(&latency, "create pods", [50; 30]);
            assert_eq!(latency.throttle_delay(ms(50)) > Duration::ZERO, is_delayed);
            assert_eq!(latency.throttle_delay(ms(4)), Duration::ZERO, "no request was sent");
            tokio::time::advance(BASELINE_WINDOW).await;
        }
    }
}
