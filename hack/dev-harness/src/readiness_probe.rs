//! The readiness probe of a service, as the kubelet sends it.

use std::time::Duration;

use anyhow::Result;
use tokio::time::timeout;

use crate::http::{self, Response};
use crate::wait;

/// Bounds one probe.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two probes.
const INTERVAL: Duration = Duration::from_millis(50);

/// Sends one probe to this port. The response of an unready service has the reasons.
///
/// # Errors
/// The same as [`http::send`].
pub async fn send(port: u16) -> Result<Response> {
    http::send(port, "GET", "/readyz", "").await
}

/// Whether a probe succeeds.
pub async fn succeeds(port: u16) -> bool {
    matches!(timeout(TIMEOUT, send(port)).await, Ok(Ok((200, _))))
}

/// Waits until a probe succeeds: the caches of the service have synced.
pub async fn wait_for_success(port: u16) {
    wait::poll(INTERVAL, async || succeeds(port).await.then_some(())).await;
}
