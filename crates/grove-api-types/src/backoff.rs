//! Exponential backoff: the delay of each retry is twice that of the one before.

use std::time::Duration;

/// The delay after this many earlier failures: doubled for each of them, from `min` to `max`.
pub fn exponential_delay(min: Duration, max: Duration, earlier_failures: u32) -> Duration {
    min.saturating_mul(1 << earlier_failures.min(16)).min(max)
}
