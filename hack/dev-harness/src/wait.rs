//! Waits for states that no watch reports.

use std::time::Duration;

use tokio::time::sleep;

/// Calls `condition` until it returns a value, with a pause of `interval` after each call without one. It never gives up, as
/// `wait.PollUntilContextCancel` of apimachinery: callers bound it by `tokio::time::timeout`.
pub async fn poll<T>(interval: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use super::poll;
    use std::time::Duration;

    #[tokio::test]
    async fn a_poll_ends_with_the_first_value() {
        let mut calls = 0;
        let value = poll(Duration::from_millis(1), async || {
            calls += 1;
            (calls == 3).then_some("ready")
        });
        assert_eq!(value.await, "ready");
        assert_eq!(calls, 3);
    }
}
