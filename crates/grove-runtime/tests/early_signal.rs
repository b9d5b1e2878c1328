//! A process that serves probes can receive a signal before its work starts. This test runs in its own process, because a
//! signal reaches all tests of a process.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{path::Path, process::Command, time::Duration};

use grove_runtime::{args::CommonArgs, runtime::Runtime};
use tokio::time::timeout;

const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c,
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}],
    contexts: [{name: c, context: {cluster: c, user: u}}]}";

#[tokio::test]
async fn a_signal_before_the_work_starts_ends_the_process_without_an_error() {
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("early.kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let any_port = Some("127.0.0.1:0".parse().unwrap());
    let args = CommonArgs {
        kubeconfig: Some(kubeconfig),
        probe_address: any_port,
        metrics_address: any_port,
        ..CommonArgs::default()
    };
    let runtime = Runtime::start("test", &args).await.unwrap();
    let own = std::process::id().to_string();
    assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
    let work = async {
        runtime.shutdown().cancelled().await;
        Ok(())
    };
    // The limit for a lost signal.
    timeout(Duration::from_mins(1), runtime.run(work, &())).await.unwrap().unwrap();
}
