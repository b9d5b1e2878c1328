//! The numbers of the strategies, from NVIDIA's driver. The benchmark prints them.

use std::time::Duration;

use crate::backoff::exponential_delay;

/// The nodes of a clique, and so the indices: `MAX_NODES_PER_IMEX_DOMAIN`.
pub const MAX_NODES_PER_CLIQUE: usize = 18;
/// The requests per second of a client with limits, as client-go's default.
pub const CLIENT_REQUESTS_PER_SECOND: f64 = 5.0;
/// The requests that such a client may send at once.
pub const CLIENT_BURST: u32 = 10;
/// The delay of a task of a daemon before its first attempt. It doubles after each failure.
pub const RETRY_BASE: Duration = Duration::from_millis(5);
/// The longest delay.
pub const RETRY_MAX: Duration = Duration::from_secs(6);
/// The part by which a delay is longer or shorter at random, so that the retries of many daemons spread.
pub const RETRY_JITTER: f64 = 0.25;
/// The time in which a terminating daemon removes its entry.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay of a task after a number of failures. `jitter` is random, from -1 to 1.
pub fn retry_delay(failures: u32, jitter: f64) -> Duration {
    let exponential = exponential_delay(RETRY_BASE, RETRY_MAX, failures);
    exponential.mul_f64(1.0 + RETRY_JITTER * jitter.clamp(-1.0, 1.0))
}

/// All numbers, with their names.
pub fn parameters() -> Vec<(&'static str, String)> {
    vec![
        ("nodes per clique", MAX_NODES_PER_CLIQUE.to_string()),
        ("requests per second of a limited client", CLIENT_REQUESTS_PER_SECOND.to_string()),
        ("burst of a limited client", CLIENT_BURST.to_string()),
        ("first delay of a task", format!("{RETRY_BASE:?}")),
        ("longest delay of a task", format!("{RETRY_MAX:?}")),
        ("jitter of a delay", format!("±{:.0} %", RETRY_JITTER * 100.0)),
        ("time to remove an entry", format!("{LEAVE_TIMEOUT:?}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_a_limit_and_spreads() {
        let delays: Vec<_> = [0, 1, 10, 11, 40].map(|failures| retry_delay(failures, 0.0).as_millis()).to_vec();
        assert_eq!(delays, [5, 10, 5120, 6000, 6000]);
        assert_eq!([-1.0, 1.0].map(|jitter| retry_delay(3, jitter).as_millis()), [30, 50]);
    }
}
