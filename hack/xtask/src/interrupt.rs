//! Being told to stop: Ctrl-C, a closed terminal, a `kill`.

use anyhow::{Error, anyhow};
use tokio::signal::unix::{SignalKind, signal};

/// Completes when this process is asked to end.
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
