//! The verbs of `cargo xtask` that start and end dev clusters.

use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::test_cluster::required_env;
use crate::timing::{self, Phase};

/// Runs a verb for the dev cluster in a folder.
///
/// # Panics
/// If `cargo xtask` did not start the test.
pub(crate) async fn run(verb: &str, dir: &Path, flags: &[String]) -> Output {
    timing::count(Phase::Clusters, command(&[verb], dir, flags).output()).await.expect("xtask runs")
}

/// Runs `soak` with the name of a series, in a dev cluster that the series starts and ends.
///
/// # Panics
/// If the series fails.
pub(crate) async fn soak(series: &str, dir: &Path, flags: &[String]) {
    let output = command(&["soak", series], dir, &with_no_build(flags)).output().await.expect("xtask runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert_succeeded(series, &output);
}

fn command(verb: &[&str], dir: &Path, flags: &[String]) -> Command {
    let mut command = Command::new(required_env("GROVE_XTASK"));
    command.args(verb).arg("--dir").arg(dir).args(flags).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Starts the processes that do not run, or that have other flags. `cargo xtask test` has built them.
///
/// # Panics
/// If they do not start.
pub(crate) async fn up(dir: &Path, flags: &[String]) {
    assert_succeeded("up", &run("up", dir, &with_no_build(flags)).await);
}

/// Starts the processes again that have ended, without any change of objects.
///
/// # Panics
/// If they do not start.
pub(crate) async fn start_again(dir: &Path, flags: &[String]) {
    let flags: Vec<_> = with_no_build(flags).into_iter().chain(["--only-processes".to_owned()]).collect();
    assert_succeeded("up", &run("up", dir, &flags).await);
}

/// Starts a cluster that cannot start, and returns the error output.
///
/// # Panics
/// If the cluster starts.
pub(crate) async fn failed_up(dir: &Path, flags: &[String]) -> String {
    let output = run("up", dir, &with_no_build(flags)).await;
    assert!(!output.status.success(), "the cluster in {} started", dir.display());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Stops all processes.
///
/// # Panics
/// If they do not stop.
pub(crate) async fn down(dir: &Path) {
    assert_succeeded("down", &run("down", dir, &[]).await);
}

fn with_no_build(flags: &[String]) -> Vec<String> {
    flags.iter().cloned().chain(["--no-build".to_owned()]).collect()
}

fn assert_succeeded(verb: &str, output: &Output) {
    assert!(output.status.success(), "xtask {verb} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}
