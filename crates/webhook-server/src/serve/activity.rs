//! Detects when clients stop sending new connections and requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Number of checks per idle period. Elapsed time is not enough: a process that gets no CPU for a while has read
/// nothing meanwhile.
const CHECKS: u32 = 10;
/// Shortest time between two checks.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Counts connections and requests. Clones share the same counter.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionActivity {
    count: Arc<AtomicU64>,
}

impl ConnectionActivity {
    /// Records a connection or request.
    pub(super) fn record(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nothing is recorded for `idle_period`, at most as many checks as fit into `max`. `max` must be at
    /// least twice `idle_period`. Returns whether the clients are idle.
    pub(super) async fn wait_idle(&self, idle_period: Duration, max: Duration) -> bool {
        let interval = (idle_period / CHECKS).max(MIN_CHECK_INTERVAL);
        let (mut previous, mut idle_checks) = (self.count(), 0);
        for _ in 0..max.as_millis() / interval.as_millis() {
            sleep(interval).await;
            let count = self.count();
            idle_checks = if count == previous { idle_checks + 1 } else { 0 };
            previous = count;
            if idle_checks == CHECKS {
                return true;
            }
        }
        false
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::{MAX_DRAIN, MAX_SHUTDOWN_DELAY};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn record_every(interval: Duration, times: u32, activity: &ConnectionActivity) {
        for _ in 0..times {
            sleep(interval).await;
            activity.record();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_one_idle_period_after_the_last_activity() {
        for idle_period in [SECOND, MAX_SHUTDOWN_DELAY] {
            let (activity, start) = (ConnectionActivity::default(), Instant::now());
            assert!(activity.wait_idle(idle_period, MAX_DRAIN).await);
            assert_eq!(start.elapsed().as_secs(), idle_period.as_secs());
        }
        let (activity, start) = (ConnectionActivity::default(), Instant::now());
        let (is_idle, ()) = tokio::join!(activity.wait_idle(SECOND, MAX_DRAIN), record_every(SECOND / 2, 4, &activity));
        assert_eq!((is_idle, start.elapsed().as_secs()), (true, 3), "a second after the last activity");
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_has_a_limit() {
        let (activity, start) = (ConnectionActivity::default(), Instant::now());
        let (is_idle, ()) =
            tokio::join!(activity.wait_idle(SECOND, MAX_DRAIN), record_every(SECOND / 2, 100, &activity));
        assert!(!is_idle);
        assert_eq!(start.elapsed(), 50 * SECOND, "there was activity until the end");
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_cpu_counts_as_one_check() {
        let (activity, start) = (ConnectionActivity::default(), Instant::now());
        let without_cpu = async { tokio::time::advance(60 * SECOND).await };
        let (is_idle, ()) = tokio::join!(activity.wait_idle(SECOND, MAX_DRAIN), without_cpu);
        assert!(is_idle);
        assert!(start.elapsed() >= 60 * SECOND + SECOND * 9 / 10, "nine checks were left");
    }
}
