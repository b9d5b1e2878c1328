//! The life of the process, with shell scripts in its place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;

use grove_process::ready::Readiness;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::test_fixtures::{Folder, identity};

/// A running [`Imex`] whose process is a script.
struct RunningImex {
    folder: Folder,
    changes: UnboundedSender<ImexChange>,
    readiness: Readiness,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Adds a line to the log for each start and each SIGUSR1.
const SCRIPT: &str = "#!/bin/sh
trap 'echo signal >> $0.log' USR1
trap 'echo end >> $0.log; exit 0' TERM
echo start >> $0.log
while true; do sleep 0.05; done
";

impl RunningImex {
    fn new(name: &str, script: Option<&str>) -> Self {
        Self::with_signal_delay(name, script, Duration::ZERO)
    }

    fn with_signal_delay(name: &str, script: Option<&str>, signal_delay: Duration) -> Self {
        let folder = Folder::new(name);
        let file = folder.path().join("imex");
        if let Some(script) = script {
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let args = ImexArgs {
            imex_command: file.to_str().unwrap().parse().unwrap(),
            imex_status_command: "true".parse().unwrap(),
            imex_dir: folder.path().to_owned(),
            hosts_file: folder.path().join("hosts"),
        };
        let (readiness, stop) = (Readiness::new(), CancellationToken::new());
        let metrics = DaemonMetrics::new().unwrap();
        let imex = Imex { signal_delay, ..Imex::new(&args, &identity(), metrics, readiness.register("IMEX")) };
        let (changes, received) = unbounded_channel();
        let (task, stop) = {
            let token = stop.clone();
            (tokio::spawn(async move { imex.run(received, &token).await }), stop)
        };
        Self { folder, changes, readiness, stop, task }
    }

    fn change(&self, change: ImexChange) {
        self.changes.send(change).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("imex.log")).unwrap_or_default().replace('\n', " ")
    }

    async fn wait_for_log(&self, expected: &str) {
        wait_until(|| self.log() == expected).await;
    }

    async fn stop(self) -> String {
        self.stop.cancel();
        self.task.await.unwrap();
        fs::read_to_string(self.folder.path().join("imex.log")).unwrap_or_default().replace('\n', " ")
    }
}

async fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(5)).await;
    }
}

fn peers(has_new: bool) -> ImexChange {
    ImexChange::Peers { peers: Vec::new(), has_new }
}

#[tokio::test]
async fn new_peers_cause_a_signal_and_removed_ones_none() {
    let imex = RunningImex::new("signal", Some(SCRIPT));
    imex.change(ImexChange::Start(Vec::new()));
    imex.wait_for_log("start ").await;
    assert!(imex.readiness.pending().is_empty());
    imex.change(peers(true));
    imex.wait_for_log("start signal ").await;
    imex.change(peers(false));
    // The process would handle a signal before SIGTERM.
    imex.change(ImexChange::Restart(Vec::new()));
    wait_until(|| imex.log().ends_with("end start ")).await;
    assert_eq!(imex.log(), "start signal end start ");
    assert_eq!(imex.stop().await, "start signal end start end ");
}

#[tokio::test]
async fn a_process_is_signalled_only_when_it_can_handle_signals() {
    let slow = SCRIPT.replace("trap 'echo signal", "sleep 0.2; trap 'echo signal");
    let imex = RunningImex::with_signal_delay("fresh", Some(&slow), Duration::from_millis(600));
    imex.change(ImexChange::Start(Vec::new()));
    imex.change(peers(true));
    imex.wait_for_log("start signal ").await;
    imex.stop().await;
}

#[tokio::test]
async fn a_process_that_ended_is_started_again() {
    let imex = RunningImex::new("crash", Some("#!/bin/sh\necho start >> $0.log\nexit 3\n"));
    imex.change(ImexChange::Start(Vec::new()));
    imex.wait_for_log("start start ").await;
    imex.stop().await;
}

#[test]
fn a_process_that_ended_is_reported_with_its_status() {
    let command = "nvidia-imex -c /imexd/imexd.cfg".parse().unwrap();
    let ended = |status| ended_message(&command, &status, Duration::from_secs(1));
    assert_eq!(
        ended(Ok(ExitStatus::from_raw(3 << 8))),
        "IMEX (\"nvidia-imex -c /imexd/imexd.cfg\") ended with exit status: 3; it starts again in 1s; see its lines above"
    );
    assert!(ended(Err(io::Error::other("no child"))).contains("ended with no child;"));
}

#[tokio::test]
async fn a_missing_command_is_reported_and_started_when_it_exists() {
    let imex = RunningImex::new("missing", None);
    imex.change(ImexChange::Start(Vec::new()));
    wait_until(|| imex.readiness.pending()["IMEX"].is_some()).await;
    let reason = imex.readiness.pending()["IMEX"].clone().unwrap();
    assert!(reason.starts_with("could not start the IMEX command \""), "{reason}");
    assert!(reason.ends_with("(IMEX_COMMAND): No such file or directory (os error 2); the daemon retries"), "{reason}");
    let script = imex.folder.path().join("script");
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(script, imex.folder.path().join("imex")).unwrap();
    imex.wait_for_log("start ").await;
    imex.stop().await;
}

#[tokio::test]
async fn a_process_starts_when_its_files_could_be_written() {
    let imex = RunningImex::new("disk", Some(SCRIPT));
    let full = imex.folder.path().join("nodes.new");
    symlink("/dev/full", &full).unwrap();
    imex.change(ImexChange::Start(Vec::new()));
    wait_until(|| imex.readiness.pending()["IMEX"].is_some()).await;
    assert_eq!(imex.log(), "");
    fs::remove_file(full).unwrap();
    imex.wait_for_log("start ").await;
    imex.stop().await;
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let imex = RunningImex::new(
        "stubborn",
        Some("#!/bin/sh\ntrap '' TERM\necho start >> $0.log\nwhile true; do sleep 0.05; done\n"),
    );
    imex.change(ImexChange::Start(Vec::new()));
    imex.wait_for_log("start ").await;
    imex.stop().await;
}
