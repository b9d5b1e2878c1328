//! Exponential backoff with jitter: the delays after failed reconciles ([`Backoff::for_objects`]), and after failed lists and watches
//! ([`Backoff::for_watches`]). `controller/worker.rs` of grove-controller applies the former, or an earlier deadline of the reconcile, or a
//! longer `Retry-After` of the API server.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use grove_api_types::backoff::exponential_delay;
use tokio::time::Instant;

/// Doubles the delay with each failure, from a minimum to a maximum. It starts again at the minimum after a quiet period
/// without failures.
#[derive(Clone, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    quiet_period: Duration,
    failures: u32,
    last_failure: Option<Instant>,
}

impl Backoff {
    /// For lists and watches: 500 ms to 10 s, so that a watch resumes within seconds after an outage of the API server.
    pub fn for_watches() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(10), Duration::from_mins(1))
    }

    /// For the reconciliations of one object: 500 ms to 1 min. The caller drops it after a success. A
    /// `Retry-After` of the API server can prolong a delay (`controller/worker.rs`).
    pub fn for_objects() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_mins(1), Duration::from_hours(1))
    }

    /// For a child process that ends by itself: 1 s to 1 min.
    pub fn for_child_processes() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_mins(1), Duration::from_mins(5))
    }

    fn new(min: Duration, max: Duration, quiet_period: Duration) -> Self {
        Self { min, max, quiet_period, failures: 0, last_failure: None }
    }

    /// Counts a failure and returns the delay before the next attempt. Jitter chooses it between half of the doubled delay
    /// and all of it, but not below the minimum, so that objects that failed together are not retried together.
    pub fn next_delay(&mut self) -> Duration {
        let now = Instant::now();
        if self.last_failure.is_some_and(|last| now.duration_since(last) > self.quiet_period) {
            self.failures = 0;
        }
        self.last_failure = Some(now);
        let doubled = exponential_delay(self.min, self.max, self.failures);
        self.failures += 1;
        self.min.max(doubled.mul_f64(0.5 + 0.5 * random_fraction()))
    }
}

/// A random number from 0 to 1.
pub fn random_fraction() -> f64 {
    let [a, b, c, d, ..] = random_number().to_ne_bytes();
    f64::from(u32::from_ne_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

/// A random number without cryptographic quality. The standard library seeds each `RandomState` from the system.
pub fn random_number() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::for_objects();
        let delays: Vec<_> = (0..20).map(|_| backoff.next_delay()).collect();
        for (nth, delay) in delays.iter().enumerate() {
            let doubled = Duration::from_millis(500).saturating_mul(1 << nth.min(16)).min(Duration::from_mins(1));
            assert!(*delay <= doubled && *delay >= doubled / 2, "failure {nth}: {delay:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_period_resets_the_delay_to_the_minimum() {
        let mut backoff = Backoff::for_watches();
        for _ in 0..10 {
            backoff.next_delay();
        }
        assert!(backoff.next_delay() >= Duration::from_secs(5));
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(backoff.next_delay(), Duration::from_millis(500));
    }
}
