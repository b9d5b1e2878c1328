//! Runs Cargo and its children as one process group. Cargo does not end its tests when it ends, and those tests would start
//! further dev clusters.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tokio::process::Command;

/// The time that the processes of the group have to clean up after SIGTERM.
const GRACE_PERIOD: Duration = Duration::from_secs(20);

/// Ends the group when it is dropped.
struct ProcessGroup(Option<Pid>);

/// Runs the command to its end and returns whether it succeeded. If this future is dropped earlier, the whole group is ended.
pub(crate) async fn run(mut command: Command) -> Result<bool> {
    let mut leader = command.process_group(0).spawn().context("cannot run cargo")?;
    let pid = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = ProcessGroup(pid);
    let succeeded = leader.wait().await?.success();
    group.0 = None;
    Ok(succeeded)
}

/// The same as [`run`], but prints the output only at the end, so that it does not mix with that of other commands.
pub(crate) async fn run_quietly(mut command: Command) -> Result<bool> {
    let (mut reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let output = tokio::task::spawn_blocking(move || {
        let mut output = Vec::new();
        reader.read_to_end(&mut output).map(|_| output)
    });
    let succeeded = run(command).await?;
    std::io::stdout().lock().write_all(&output.await??)?;
    Ok(succeeded)
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let Some(leader) = self.0 else { return };
        // An error means that the group has ended already.
        _ = kill_process_group(leader, Signal::TERM);
        let deadline = Instant::now() + GRACE_PERIOD;
        while Instant::now() < deadline {
            // The leader is a child of this process: it stays in the group as a zombie until it is reaped.
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
    use super::run;
    use crate::proc;
    use std::time::Duration;
    use tokio::process::Command;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[tokio::test]
    async fn the_exit_code_decides_about_success() {
        assert!(run(shell("true")).await.unwrap());
        assert!(!run(shell("exit 3")).await.unwrap());
    }

    #[tokio::test]
    async fn children_end_with_the_group() {
        let file = std::env::temp_dir().join(format!("grove-group-{}", std::process::id()));
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        let started = async {
            while !std::fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n')) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            _ = run(shell(&script)) => panic!("the shell waits for its child"),
            () = started => {}
        }
        let pid = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let stat = proc::stat(pid.trim().parse().unwrap());
        assert!(stat.is_none_or(|stat| stat.is_zombie), "{stat:?}");
    }
}
