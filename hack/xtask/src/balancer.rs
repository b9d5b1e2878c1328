//! Stands for kube-proxy: hands each connection to the next backend that says it is ready, else to one that takes it.

use crate::services::is_ready;
use anyhow::{Context, Result, bail};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// Between two looks at a backend.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Where one process takes connections, and where it says whether it wants any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    port: u16,
    probes: u16,
}

impl std::str::FromStr for Backend {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (port, probes) = text.split_once(':').context("a backend is PORT:PROBE-PORT")?;
        Ok(Self { port: port.parse()?, probes: probes.parse()? })
    }
}

/// Listens until the process ends.
pub(crate) async fn run(port: u16, backends: &[Backend]) -> Result<()> {
    if backends.is_empty() {
        bail!("give at least one --backend");
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let ready: Arc<[_]> = backends.iter().map(|backend| (backend.port, observed(*backend))).collect();
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let (client, _) = listener.accept().await?;
        let (ready, turn) = (Arc::clone(&ready), Arc::clone(&turn));
        tokio::spawn(async move { carry(client, &ready, &turn).await });
    }
}

fn observed(backend: Backend) -> watch::Receiver<bool> {
    let (says, said) = watch::channel(false);
    tokio::spawn(async move {
        while !says.is_closed() {
            says.send_replace(is_ready(backend.probes).await);
            sleep(LOOK_AGAIN).await;
        }
    });
    said
}

/// A backend that takes no connection after all is passed over. While none says that it is ready, those that still take
/// connections do, as kube-proxy has it: one may be about to end and the word of its successor on its way.
async fn carry(mut client: TcpStream, backends: &[(u16, watch::Receiver<bool>)], turn: &AtomicUsize) {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    let in_turn = (0..backends.len()).map(|step| &backends[(first + step) % backends.len()]);
    let (ready, others): (Vec<_>, Vec<_>) = in_turn.partition(|(_, ready)| *ready.borrow());
    for (port, _) in ready.into_iter().chain(others) {
        if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await {
            // As good as none: a connection without delay is only faster.
            _ = (client.set_nodelay(true), server.set_nodelay(true));
            // How a connection ends is told to both sides by its end.
            _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
