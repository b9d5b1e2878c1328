//! Who answers probes can be asked to stop, before its work begins, too. A process of its own, which hears the signal.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::{path::Path, process::Command, time::Duration};

use grove_runtime::{args::CommonArgs, runtime::Runtime};
use tokio::time::timeout;

const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c,
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}],
    contexts: [{name: c, context: {cluster: c, user: u}}]}";

#[tokio::test]
async fn a_signal_before_the_work_begins_ends_it_well() {
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("early.kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let anywhere = Some("127.0.0.1:0".parse().unwrap());
    let args = CommonArgs {
        kubeconfig: Some(kubeconfig),
        probe_address: anywhere,
        metrics_address: anywhere,
        ..CommonArgs::default()
    };
    let service = Runtime::start("test", &args).await.unwrap();
    let own = std::process::id().to_string();
    assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
    let work = async {
        service.shutdown().cancelled().await;
        Ok(())
    };
    // A deadline for a signal that was lost.
    timeout(Duration::from_mins(1), service.run(work, &())).await.unwrap().unwrap();
}
