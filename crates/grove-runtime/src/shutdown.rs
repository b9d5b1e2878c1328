//! Stopping: the first signal asks everybody to finish, the second ends the process.

use std::future::Future;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// Asked of every part when the service is to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    asked: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { asked: watch::Sender::new(false) }
    }
}

impl Shutdown {
    /// Not asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody to take no new work and finish.
    pub fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Returns once it is asked.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + Sync + 'static + use<> {
        let asked = self.asked.clone();
        async move {
            // The sender lives in this future, so the wait cannot fail.
            let _ = asked.subscribe().wait_for(|asked| *asked).await;
        }
    }
}

/// SIGTERM and SIGINT of this process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both signals over from their default of ending the process.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn everybody_hears_the_request_early_or_late() {
        let shutdown = Shutdown::new();
        let early = shutdown.asked();
        assert!(!shutdown.is_asked());
        assert_eq!(shutdown.asked().now_or_never(), None);
        shutdown.ask();
        early.await;
        shutdown.clone().asked().await;
        assert!(shutdown.is_asked());
    }
}
