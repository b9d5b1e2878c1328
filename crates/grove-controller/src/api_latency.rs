//! The write latency of the API server, relative to its latency without load. A high latency delays events. It also delays
//! statuses that only show progress ([`StatusPolicy`]).

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::status_policy::StatusPolicy;

/// Up to this multiple of the lowest latency, events are not delayed.
const HEALTHY_RATIO: f64 = 3.0;
/// The weight of the newest latency in the moving average.
const EWMA_ALPHA: f64 = 0.2;
/// The baseline is the lowest latency of this window and of the one before. So it adapts to a server that became slower
/// permanently.
const BASELINE_WINDOW: Duration = Duration::from_hours(1);
/// Without a write for this long the load is unknown.
const RECENT: Duration = Duration::from_millis(500);
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
}

impl Latencies {
    fn rotate_window(&mut self, now: Instant) {
        let start = *self.window_start.get_or_insert(now);
        if now.duration_since(start) >= BASELINE_WINDOW {
            self.lowest_of_previous_window = self.lowest.take();
            self.window_start = Some(now);
        }
    }

    fn add(&mut self, latency: f64) {
        self.average = Some(self.average.map_or(latency, |average| average + EWMA_ALPHA * (latency - average)));
        self.lowest = Some(self.lowest.map_or(latency, |lowest| lowest.min(latency)));
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
        latencies.last_write = Some(now);
        latencies.add(latency.as_secs_f64());
    }

    /// Whether the API server is loaded: the latency of recent writes exceeds the latency without load by the factor of the policy.
    /// The work queue reads this before a write of progress starts, and the status throttle before the request; neither measures.
    pub fn is_loaded(&self, policy: &StatusPolicy) -> bool {
        let latencies = self.0.lock();
        let is_recent = latencies.last_write.is_some_and(|last_write| last_write.elapsed() < RECENT);
        let (Some(average), Some(baseline)) = (latencies.average, latencies.baseline()) else { return false };
        is_recent && average > f64::from(policy.loaded_latency_factor) * baseline
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
