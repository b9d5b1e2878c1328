//! The processes of a dev cluster, by their pids.

use std::path::Path;
use std::time::Duration;

use grove_dev_harness::state_file::{self, PROCESSES, ProcessEntry};
use grove_dev_harness::wait;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::namespace_state::TIMEOUT;

/// Between two looks whether a process has ended.
const INTERVAL: Duration = Duration::from_millis(20);

/// A process, by its pid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) Pid);

/// The processes that `cargo xtask up` started in a folder, by name. Some may have ended.
///
/// # Panics
/// If their list cannot be read.
pub(crate) fn of(dir: &Path) -> impl Iterator<Item = (String, Process)> {
    let entries = state_file::read::<ProcessEntry>(&dir.join(PROCESSES)).expect("a list of processes");
    entries.into_iter().filter_map(|(name, entry)| Some((name, Process(Pid::from_raw(entry.pid)?))))
}

impl Process {
    /// Whether the process runs. A process that has ended may be a zombie for seconds, until its parent reaps it.
    pub(crate) fn is_alive(self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero())).unwrap_or_default();
        // The state follows the name of the program, which is in parentheses, and the number of threads is 17 fields later. The first
        // thread may have exited before the others, which hold the sockets.
        let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        !matches!((fields[0], fields[17]), ("Z" | "X", "0" | "1"))
    }

    /// Sends a signal, unless the process has ended.
    ///
    /// # Panics
    /// If the signal may not be sent.
    pub(crate) fn signal(self, signal: Signal) {
        match kill_process(self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("{signal:?} is not sent: {error}"),
        }
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    /// If it does not end in time.
    pub(crate) async fn wait_for_exit(self) {
        let ended = timeout(TIMEOUT, wait::poll(INTERVAL, async || (!self.is_alive()).then_some(())));
        assert!(ended.await.is_ok(), "{self:?} does not exit");
    }
}
