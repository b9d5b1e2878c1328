//! Growing delays with jitter, for whatever has to be tried again.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

/// Doubles from `first` to `longest`; starts over when nothing failed for a while.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    forget_after: Duration,
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// For a watch: back within seconds after the API server returns, yet no load while it is away.
    pub fn for_watches() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(10), Duration::from_mins(1))
    }

    /// For one object whose reconciliation failed; reset on success only.
    pub fn for_objects() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_mins(1), Duration::from_hours(1))
    }

    fn new(first: Duration, longest: Duration, forget_after: Duration) -> Self {
        Self { first, longest, forget_after, failures: 0, last: None }
    }

    /// How long to wait after one more failure: between half and the whole of the doubled delay, so that those who
    /// failed together do not return together. Never below `first`.
    pub fn failed(&mut self) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > self.forget_after) {
            self.failures = 0;
        }
        self.last = Some(now);
        let doubled = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures += 1;
        self.first.max(doubled.mul_f64(0.5 + 0.5 * random_fraction()))
    }
}

fn random_fraction() -> f64 {
    let [a, b, ..] = random_number().to_ne_bytes();
    f64::from(u16::from_ne_bytes([a, b])) / f64::from(u16::MAX)
}

/// Good enough to tell processes apart and to spread them: the standard library seeds each hasher from the system.
pub(crate) fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_longest() {
        let mut backoff = Backoff::for_objects();
        let delays: Vec<_> = (0..20).map(|_| backoff.failed()).collect();
        for (nth, delay) in delays.iter().enumerate() {
            let whole = Duration::from_millis(500).saturating_mul(1 << nth.min(16)).min(Duration::from_mins(1));
            assert!(*delay <= whole && *delay >= whole / 2, "failure {nth}: {delay:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_while_starts_over() {
        let mut backoff = Backoff::for_watches();
        for _ in 0..10 {
            backoff.failed();
        }
        assert!(backoff.failed() >= Duration::from_secs(5));
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(backoff.failed(), Duration::from_millis(500));
    }
}
