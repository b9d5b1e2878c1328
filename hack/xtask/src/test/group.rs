//! Cargo with all that it starts, as one group of processes: Cargo does not end its tests when it is ended itself, and
//! they would go on to bring up planes.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};
use std::time::{Duration, Instant};
use tokio::process::Command;

/// Whoever of the group has something to end has this much time for it.
const GRACE: Duration = Duration::from_secs(20);

/// Ends with its owner.
struct Group(Option<Pid>);

/// Runs it to its end, and says whether it ended well. When this is dropped before, the whole group is ended.
pub(crate) async fn passes(mut command: Command) -> Result<bool> {
    let mut leader = command.process_group(0).spawn().context("cannot run cargo")?;
    let pid = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let passed = leader.wait().await?.success();
    group.0 = None;
    Ok(passed)
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.0 else { return };
        // Whatever is gone already needs no signal.
        _ = kill_process_group(leader, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            // The leader is a child of this process, and part of its group until somebody asks how it ended.
            _ = waitpid(Some(leader), WaitOptions::NOHANG);
            if test_kill_process_group(leader).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        _ = kill_process_group(leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::passes;
    use std::time::Duration;
    use tokio::process::Command;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[tokio::test]
    async fn how_it_ends_is_told() {
        assert!(passes(shell("true")).await.unwrap());
        assert!(!passes(shell("exit 3")).await.unwrap());
    }

    #[tokio::test]
    async fn whoever_it_started_ends_with_it() {
        let file = std::env::temp_dir().join(format!("grove-group-{}", std::process::id()));
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        let started = async {
            while !std::fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n')) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            _ = passes(shell(&script)) => panic!("it waits"),
            () = started => {}
        }
        let pid = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}
