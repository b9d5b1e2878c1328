//! A second client that lists all pods twice a second, as a dashboard or a metrics exporter does.

use anyhow::Result;
use kube::Client;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

const INTERVAL: Duration = Duration::from_millis(500);

/// Lists the pods until it is dropped.
pub(super) struct PodLister(JoinHandle<()>);

impl PodLister {
    /// Starts the lists. Each list is complete and comes from the API server's current state; the response is read and not
    /// parsed.
    pub(super) fn start(client: Client) -> Self {
        Self(tokio::spawn(async move {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                if let Err(error) = list(&client).await {
                    eprintln!("cannot list the pods: {error:#}");
                }
            }
        }))
    }
}

impl Drop for PodLister {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn list(client: &Client) -> Result<()> {
    let request = http::Request::get("/api/v1/pods").body(Vec::new())?;
    client.request_text(request).await?;
    Ok(())
}
