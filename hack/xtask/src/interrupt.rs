//! Signals that end `cargo xtask`: SIGINT (Ctrl-C), SIGTERM, and SIGHUP (a closed terminal).

use anyhow::{Error, anyhow};
use tokio::signal::unix::{SignalKind, signal};

/// Completes when this process receives one of the signals.
pub(crate) async fn interrupted() -> Error {
    let wait = async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        Ok::<_, std::io::Error>(())
    };
    match wait.await {
        Ok(()) => anyhow!("interrupted"),
        Err(error) => Error::new(error).context("cannot listen for signals"),
    }
}
