//! The write latency of the API server, relative to its latency without load. A high latency delays events. It also delays
//! statuses that only show progress ([`StatusPolicy`](crate::status_policy::StatusPolicy)).

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Up to this multiple of the lowest latency, events are not delayed.
const HEALTHY_RATIO: f64 = 3.0;
/// Above this multiple of the lowest latency, the API server is loaded.
const LOADED_RATIO: f64 = 4.0;
/// The weight of the newest latency in the moving average.
const EWMA_ALPHA: f64 = 0.2;
/// The baseline is the lowest latency of this window and of the one before. So it adapts to a server that became slower
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

/// Latencies in seconds.
#[derive(Debug, Default)]
struct Latencies {
    average: Option<f64>,
    lowest: Option<f64>,
    lowest_of_previous_window: Option<f64>,
    window_start: Option<Instant>,
    last_write: Option<Instant>,
    /// Zero before the first write.
    unknown_after: Duration,
}

impl Latencies {
    fn rotate_window(&mut self, now: Instant) {
        let start = *self.window_start.get_or_insert(now);
        if now.duration_since(start) >= BASELINE_WINDOW {
            self.lowest_of_previous_window = self.lowest.take();
            self.window_start = Some(now);
        }
    }

    fn add(&mut self, latency: f64, now: Instant) {
        let is_known = self.is_known(now);
        // An average of writes before such an interval says nothing about the load now.
        let previous = self.average.filter(|_| is_known);
        self.average = Some(previous.map_or(latency, |average| average + EWMA_ALPHA * (latency - average)));
        self.lowest = Some(self.lowest.map_or(latency, |lowest| lowest.min(latency)));
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

    /// Whether the average of the latest writes shows that the API server is loaded.
    fn is_slow(&self) -> bool {
        self.average.zip(self.baseline()).is_some_and(|(average, baseline)| average > LOADED_RATIO * baseline)
    }

    fn baseline(&self) -> Option<f64> {
        [self.lowest, self.lowest_of_previous_window].into_iter().flatten().reduce(f64::min)
    }
}

impl ApiLatency {
    /// Records the latency of a write that succeeded.
    pub fn observe(&self, latency: Duration) {
        let mut latencies = self.0.lock();
        let now = Instant::now();
        latencies.rotate_window(now);
        latencies.add(latency.as_secs_f64(), now);
    }

    /// Whether the API server is loaded: the latency of recent writes exceeds [`LOADED_RATIO`] times the latency without load.
    /// The work queue reads this before a write of progress starts, and the status throttle before the request; neither measures.
    pub fn is_loaded(&self) -> bool {
        let latencies = self.0.lock();
        latencies.is_known(Instant::now()) && latencies.is_slow()
    }

    /// The delay after the publication of an event, which took `latency`: zero up to [`HEALTHY_RATIO`], then longer for a
    /// higher latency. A publication that took less than the baseline sent no request, and needs no delay.
    pub fn throttle_delay(&self, latency: Duration) -> Duration {
        let latencies = self.0.lock();
        let (Some(average), Some(baseline)) = (latencies.average, latencies.baseline()) else { return Duration::ZERO };
        if latency.as_secs_f64() < baseline {
            return Duration::ZERO;
        }
        let delay = average * (average / baseline - HEALTHY_RATIO).max(0.0);
        Duration::try_from_secs_f64(delay).unwrap_or(MAX_DELAY).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn delay_after(latencies: impl IntoIterator<Item = u64>) -> Duration {
        let latency = ApiLatency::default();
        latencies.into_iter().for_each(|milliseconds| latency.observe(ms(milliseconds)));
        latency.throttle_delay(ms(100))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_loaded_api_server_causes_a_delay() {
        assert_eq!(delay_after([]), Duration::ZERO, "no latency is known");
        assert_eq!(delay_after([100]), Duration::ZERO, "there is no baseline yet");
        assert_eq!(delay_after([9, 5, 7, 10]), Duration::ZERO);
        let busy = [5].into_iter().chain([20; 30]);
        assert_eq!(delay_after(busy.clone()).as_millis(), 19, "four times the baseline: one more than healthy");
        assert_eq!(delay_after([5].into_iter().chain([500; 30])), MAX_DELAY);
        assert_eq!(delay_after(busy.chain([6; 10])), Duration::ZERO, "it is healthy again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loaded_api_server_receives_fewer_and_fewer_writes_that_measure_the_load() {
        let latency = ApiLatency::default();
        [5].into_iter().chain([50; 30]).for_each(|milliseconds| latency.observe(ms(milliseconds)));
        for interval in [500, 1000, 2000, 4000, 4000] {
            tokio::time::advance(ms(interval - 1)).await;
            assert!(latency.is_loaded(), "no write was sent for {} ms", interval - 1);
            tokio::time::advance(ms(1)).await;
            assert!(!latency.is_loaded(), "the load is unknown after {interval} ms");
            [50, 60].into_iter().for_each(|milliseconds| latency.observe(ms(milliseconds)));
            assert!(latency.is_loaded());
        }
        tokio::time::advance(MAX_UNKNOWN_AFTER).await;
        latency.observe(ms(6));
        assert!(!latency.is_loaded(), "one write shows that the load has ended");
        (0..30).for_each(|_| latency.observe(ms(50)));
        assert!(latency.is_loaded());
        tokio::time::advance(UNKNOWN_AFTER).await;
        assert!(!latency.is_loaded(), "the load is new");
    }

    #[tokio::test(start_paused = true)]
    async fn the_baseline_adapts_to_an_api_server_that_became_slower_permanently() {
        let latency = ApiLatency::default();
        latency.observe(ms(5));
        for is_delayed in [true, true, false] {
            (0..30).for_each(|_| latency.observe(ms(50)));
            assert_eq!(latency.throttle_delay(ms(50)) > Duration::ZERO, is_delayed);
            assert_eq!(latency.throttle_delay(ms(4)), Duration::ZERO, "no request was sent");
            tokio::time::advance(BASELINE_WINDOW).await;
        }
    }
}
