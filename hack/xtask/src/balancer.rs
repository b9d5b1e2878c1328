//! Forwards connections to the replicas of the webhook server, in place of kube-proxy.

use anyhow::{Context, Result, bail};
use grove_dev_harness::readiness_probe;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// The ports of one replica: for connections, and for its readiness probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    port: u16,
    probe_port: u16,
}

impl std::str::FromStr for Backend {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (port, probe_port) = text.split_once(':').context("a backend has the form PORT:PROBE-PORT")?;
        Ok(Self { port: port.parse()?, probe_port: probe_port.parse()? })
    }
}

/// Listens until the process ends.
pub(crate) async fn run(address: SocketAddr, backends: &[Backend]) -> Result<()> {
    if backends.is_empty() {
        bail!("give at least one --backend");
    }
    let listener = TcpListener::bind(address).await?;
    let is_only_one = backends.len() == 1;
    let backends: Arc<[_]> = backends.iter().map(|backend| (backend.port, readiness(*backend, is_only_one))).collect();
    let next = Arc::new(AtomicUsize::new(0));
    loop {
        let (client, _) = listener.accept().await?;
        let (backends, next) = (Arc::clone(&backends), Arc::clone(&next));
        tokio::spawn(async move { forward(client, &backends, &next).await });
    }
}

/// Whether the backend is ready. The only backend gets all connections, so its readiness is not probed.
fn readiness(backend: Backend, is_only_one: bool) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    if is_only_one {
        return receiver;
    }
    tokio::spawn(async move {
        while !sender.is_closed() {
            sender.send_replace(readiness_probe::succeeds(backend.probe_port).await);
            sleep(PROBE_INTERVAL).await;
        }
    });
    receiver
}

/// Forwards one connection to the next ready backend, round robin; skips a backend that rejects the connection. If no
/// backend is ready, an unready backend that accepts connections gets it, as with kube-proxy: it may be terminating while the
/// readiness of its successor is not known yet.
async fn forward(mut client: TcpStream, backends: &[(u16, watch::Receiver<bool>)], next: &AtomicUsize) {
    let first = next.fetch_add(1, Ordering::Relaxed);
    let in_turn = (0..backends.len()).map(|step| &backends[(first + step) % backends.len()]);
    let (ready, unready): (Vec<_>, Vec<_>) = in_turn.partition(|(_, ready)| *ready.borrow());
    for (port, _) in ready.into_iter().chain(unready) {
        if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await {
            // An error is harmless: without the option the connection is only slower.
            _ = (client.set_nodelay(true), server.set_nodelay(true));
            // Both sides see an error as the end of the connection.
            _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
