//! Polls sources without a watch, such as probes, logs and answers of kubectl.

use std::panic::Location;
use std::time::Duration;

use grove_dev_harness::wait;
use tokio::time::timeout;

use crate::namespace_state::TIMEOUT;

/// Between two polls.
const INTERVAL: Duration = Duration::from_millis(100);

/// Polls until there is a value.
///
/// # Panics
/// If there is none in time; the message names the caller.
#[track_caller]
pub fn poll_until<T>(read: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    let polling = timeout(TIMEOUT, wait::poll(INTERVAL, read));
    async move { polling.await.unwrap_or_else(|_| panic!("{caller}: no value in time")) }
}

/// Polls until the output of a source contains this text.
///
/// # Panics
/// If it does not in time; the message shows the last lines.
pub(crate) async fn poll_until_contains(source: &str, text: &str, read: impl AsyncFn() -> String) {
    let mut output = String::new();
    let polling = wait::poll(INTERVAL, async || {
        output = read().await;
        output.contains(text).then_some(())
    });
    if timeout(TIMEOUT, polling).await.is_err() {
        let last: Vec<&str> = output.lines().rev().take(20).collect();
        panic!("the output of {source} does not contain {text:?}; its last lines, newest first:\n{}", last.join("\n"));
    }
}
