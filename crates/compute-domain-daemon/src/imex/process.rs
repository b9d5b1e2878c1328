//! Runs the IMEX process: starts it, lets it know new peers, and starts it again after it ended.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use std::{future, io};

use grove_api_types::compute_domain::daemon::ImexChange;
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::Entry;
use grove_process::backoff::Backoff;
use grove_process::ready::ReadyHandle;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::files;
use crate::args::ImexArgs;
use crate::command::Command;
use crate::metrics::DaemonMetrics;

/// The time for the process to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that started less than this ago may not handle SIGUSR1 yet, which would end it.
const SIGNAL_DELAY: Duration = Duration::from_secs(3);

/// The IMEX process of a node.
pub struct Imex {
    command: Command,
    dir: PathBuf,
    hosts_file: PathBuf,
    identity: Identity,
    /// The lines of the hosts file that are not of the daemon.
    foreign_hosts: Option<String>,
    metrics: DaemonMetrics,
    /// Until the first start.
    ready: Option<ReadyHandle>,
    /// The peers, once the daemon has an index.
    peers: Option<Vec<Entry>>,
    child: Option<Child>,
    /// When the process may be signalled.
    may_signal_at: Option<Instant>,
    signal_delay: Duration,
    pending: PendingStep,
    backoff: Backoff,
}

/// What the process still has to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PendingStep {
    /// Nothing.
    Nothing,
    /// The files are not written, and the process need not read them.
    Files,
    /// It has to resolve the names again.
    Signal,
    /// It has to start, or to start again.
    Start,
}

/// Why the process does not have its newest peers.
#[derive(Debug, thiserror::Error)]
enum ImexError {
    #[error(transparent)]
    File(#[from] files::FileError),
    #[error("could not start the IMEX command \"{command}\" (IMEX_COMMAND): {source}; the daemon retries")]
    Start { command: Command, source: io::Error },
    #[error("could not send SIGUSR1 to IMEX: {0}; the daemon retries")]
    Signal(io::Error),
}

impl Imex {
    /// The process of the daemon, which is not started yet.
    pub fn new(args: &ImexArgs, identity: &Identity, metrics: DaemonMetrics, ready: ReadyHandle) -> Self {
        Self {
            command: args.imex_command.clone(),
            dir: args.imex_dir.clone(),
            hosts_file: args.hosts_file.clone(),
            identity: identity.clone(),
            metrics,
            ready: Some(ready),
            peers: None,
            child: None,
            may_signal_at: None,
            signal_delay: SIGNAL_DELAY,
            foreign_hosts: None,
            pending: PendingStep::Nothing,
            backoff: Backoff::for_child_processes(),
        }
    }

    /// Runs the process until `stop`, and ends it then.
    pub async fn run(mut self, mut changes: UnboundedReceiver<ImexChange>, stop: &CancellationToken) {
        let mut retry_at = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(change) = changes.recv() => {
                    self.accept(change);
                    // A process that ended is not started before its delay.
                    if self.child.is_some() || retry_at.is_none() {
                        retry_at = self.update().await;
                    }
                }
                status = ended(self.child.as_mut()) => retry_at = Some(self.restart_at(&status)),
                () = due(retry_at) => retry_at = self.update().await,
            }
        }
        self.terminate().await;
    }

    /// Notes what the process has to learn.
    fn accept(&mut self, change: ImexChange) {
        let (peers, pending) = match change {
            ImexChange::Start(peers) | ImexChange::Restart(peers) => (peers, PendingStep::Start),
            ImexChange::Peers { peers, has_new: true } => (peers, PendingStep::Signal),
            ImexChange::Peers { peers, has_new: false } => (peers, PendingStep::Files),
        };
        self.peers = Some(peers);
        self.pending = self.pending.max(pending);
    }

    /// Writes the files and lets the process know them. Returns when to try it again after a failure.
    async fn update(&mut self) -> Option<Instant> {
        let error = match self.try_update().await {
            Ok(None) => {
                self.pending = PendingStep::Nothing;
                return None;
            }
            Ok(later) => return later,
            Err(error) => error,
        };
        let delay = self.backoff.next_delay();
        tracing::warn!("{error} in {delay:?}");
        if let Some(ready) = &self.ready {
            ready.set_reason(&error.to_string());
        }
        Some(Instant::now() + delay)
    }

    /// Returns when the process can be signalled, if it has just started.
    async fn try_update(&mut self) -> Result<Option<Instant>, ImexError> {
        let Some(peers) = &self.peers else { return Ok(None) };
        files::write(&self.dir, (&self.hosts_file, &mut self.foreign_hosts), &self.identity, peers)?;
        match self.pending {
            PendingStep::Nothing | PendingStep::Files => {}
            PendingStep::Signal => {
                let later = self.may_signal_at.filter(|at| *at > Instant::now());
                if later.is_some() {
                    return Ok(later);
                }
                self.signal(Signal::USR1).map_err(ImexError::Signal)?;
            }
            PendingStep::Start => {
                self.terminate().await;
                self.start()?;
            }
        }
        Ok(None)
    }

    fn start(&mut self) -> Result<(), ImexError> {
        let mut process = self.command.to_process();
        let child = process.kill_on_drop(true).spawn();
        let child = child.map_err(|source| ImexError::Start { command: self.command.clone(), source })?;
        tracing::info!(pid = child.id(), command = %self.command, "IMEX started");
        self.child = Some(child);
        self.may_signal_at = Some(Instant::now() + self.signal_delay);
        self.metrics.record_imex_start();
        self.ready.take().into_iter().for_each(ReadyHandle::set_ready);
        Ok(())
    }

    /// A process that has just ended is started again later, with the newest files.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.child.as_ref().and_then(Child::id).and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(pid.map_or(Ok(()), |pid| kill_process(pid, signal))?)
    }

    /// After the process ended by itself: when it starts again.
    fn restart_at(&mut self, status: &io::Result<ExitStatus>) -> Instant {
        self.child = None;
        self.pending = PendingStep::Start;
        let delay = self.backoff.next_delay();
        tracing::warn!("{}", ended_message(&self.command, status, delay));
        Instant::now() + delay
    }

    /// Ends the process by SIGTERM, and by SIGKILL if it does not end in time.
    async fn terminate(&mut self) {
        let signalled = self.signal(Signal::TERM);
        let Some(mut child) = self.child.take() else { return };
        if signalled.is_err() || timeout(TERMINATION_TIMEOUT, child.wait()).await.is_err() {
            tracing::warn!("IMEX did not end within {TERMINATION_TIMEOUT:?} after SIGTERM and is killed");
            // An error means that it has ended.
            drop(child.kill().await);
        }
    }
}

fn ended_message(command: &Command, status: &io::Result<ExitStatus>, delay: Duration) -> String {
    let status = status.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    format!("IMEX (\"{command}\") ended with {status}; it starts again in {delay:?}; see its lines above")
}

/// Returns when the process has ended.
async fn ended(child: Option<&mut Child>) -> io::Result<ExitStatus> {
    match child {
        Some(child) => child.wait().await,
        None => future::pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
    }
}

#[cfg(test)]
mod tests;
