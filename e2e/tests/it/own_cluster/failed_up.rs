//! An `up` that fails says why, and ends all that it had started.

use e2e::Plane;
use e2e::plane::until_said;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_up_leaves_no_processes() {
    let config = format!("{}/tests/it/own_cluster/failed-up.yaml", env!("CARGO_MANIFEST_DIR"));
    let (failed, said) = Plane::failed("failed-up", &["--config", &config]).await;
    assert!(said.contains(" died") && said.contains("logLevel"), "{said}");
    // What is told to end may need a moment.
    until_said(async || failed.processes().is_empty().then_some(())).await;
    assert!(failed.dir().join("log/kube-apiserver.log").is_file(), "the control plane had been started");
    // Nothing that it left is in the way of the next attempt.
    drop(failed);
    let plane = Plane::own("failed-up").await;
    assert!(!plane.processes().is_empty());
    plane.down().await;
}
