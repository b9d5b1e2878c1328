//! A failed `cargo xtask up` reports the reason and stops all processes that it started.

use e2e::TestCluster;
use e2e::poll::poll_until;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_up_leaves_no_processes() {
    let config = format!("{}/tests/it/own_cluster/failed-up.yaml", env!("CARGO_MANIFEST_DIR"));
    let (mut failed, error) = TestCluster::failed_start("failed-up", &["--config", &config]).await;
    assert!(error.contains(" died") && error.contains("logLevel"), "{error}");
    // The stopped processes may need a moment to exit.
    poll_until(async || failed.processes().is_empty().then_some(())).await;
    assert!(failed.dir().join("log/kube-apiserver.log").is_file(), "the control plane was started");
    // The remaining files do not prevent the next start.
    failed.up_with(&[]).await;
    assert!(!failed.processes().is_empty());
    failed.down().await;
}
