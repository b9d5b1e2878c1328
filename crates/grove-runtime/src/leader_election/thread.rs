//! The thread of the leader election. No computation of the service delays the renewal of the Lease, for example a plan for many
//! objects or the parsing of a long list.

use std::{future::Future, thread};

use anyhow::Context;
use grove_api_types::configuration::LeaderElection;
use kube::{Client, Config};
use tokio::{runtime::Builder, sync::oneshot};
use tokio_util::sync::CancellationToken;

use super::{LeaderElector, LeaseLock};
use crate::{leadership::Leadership, metrics::Metrics, ready::Readiness};

/// A leader election that has not started. It has no client yet, because a client belongs to the thread that creates it.
pub(crate) struct PendingElection {
    /// The configuration of the client.
    pub(crate) config: Config,
    /// As in [`LeaseLock`].
    pub(crate) namespace: String,
    /// As in [`LeaseLock`].
    pub(crate) service: String,
    /// The replica.
    pub(crate) identity: String,
    pub(crate) settings: LeaderElection,
    pub(crate) leadership: Leadership,
    pub(crate) metrics: Metrics,
}

impl PendingElection {
    /// Runs the leader election on its own thread, from the moment the caches are synced until `release`.
    ///
    /// # Errors
    /// The loss of the leadership, or the thread or its client cannot be created.
    pub(crate) async fn run(self, readiness: Readiness, release: CancellationToken) -> anyhow::Result<()> {
        run_on_own_thread(move || async move {
            let elector = self.elector()?;
            tokio::select! {
                () = readiness.wait() => elector.run(release.cancelled()).await.map_err(anyhow::Error::from),
                () = release.cancelled() => Ok(()),
            }
        })
        .await
    }

    fn elector(self) -> anyhow::Result<LeaderElector> {
        let Self { config, namespace, service, identity, settings, leadership, metrics } = self;
        let client = Client::try_from(config).context("could not create the client for leases")?;
        let lock = LeaseLock { client, namespace, service };
        Ok(LeaderElector::new(lock, &identity, &settings, leadership, metrics))
    }
}

/// Runs the future of `elect` on a thread of its own, and returns its result.
async fn run_on_own_thread<F>(elect: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    let (sender, result) = oneshot::channel();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("could not create the runtime of the leader election");
        // The receiver does not exist any more if the work of the process has failed.
        let _ = sender.send(runtime.and_then(|runtime| runtime.block_on(elect())));
    };
    let thread = thread::Builder::new().name("leader-election".to_owned()).spawn(run);
    thread.context("could not start the thread of the leader election")?;
    result.await.context("the thread of the leader election ended without a result")?
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc, time::Duration};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_blocked_thread_of_the_service_does_not_delay_the_leader_election() {
        let (renewals, renewed) = mpsc::channel();
        let release = CancellationToken::new();
        let released = release.clone();
        let mut election = pin!(run_on_own_thread(move || async move {
            for renewal in 0..3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                renewals.send(renewal)?;
            }
            released.cancelled().await;
            anyhow::Result::<()>::Err(anyhow::anyhow!("lost"))
        }));
        assert!((&mut election).now_or_never().is_none());
        // This blocks the thread of the test, and the election proceeds.
        let received = [(); 3].map(|()| renewed.recv_timeout(Duration::from_mins(1)).unwrap());
        assert_eq!(received, [0, 1, 2]);
        release.cancel();
        assert_eq!(election.await.unwrap_err().to_string(), "lost");
    }

    #[tokio::test]
    async fn a_panic_of_the_thread_is_an_error() {
        let result = run_on_own_thread(|| async {
            assert!(std::hint::black_box(false), "a planted panic");
            anyhow::Ok(())
        });
        let result = result.await;
        assert_eq!(result.unwrap_err().to_string(), "the thread of the leader election ended without a result");
    }
}
