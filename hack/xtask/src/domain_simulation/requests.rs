//! Requests of the simulation to the API server.

use anyhow::{Context, Result};
use grove_dev_harness::wait;
use std::time::Duration;
use tokio::time::timeout;

/// The pause before a request is repeated.
pub(super) const RETRY: Duration = Duration::from_millis(100);
/// Bounds a hang.
pub(super) const TIMEOUT: Duration = Duration::from_mins(5);

/// A deleted object is no error.
pub(super) fn if_found<T>(outcome: kube::Result<T>) -> kube::Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Repeats a request while the API server restarts.
pub(super) async fn retry<T>(mut request: impl AsyncFnMut() -> kube::Result<T>) -> Result<T> {
    let repeated = wait::poll(RETRY, async || match request().await {
        Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
            Some(Err(kube::Error::Api(status)))
        }
        Err(_) => None,
        done => Some(done),
    });
    Ok(timeout(TIMEOUT, repeated).await.context("the API server does not answer")??)
}
