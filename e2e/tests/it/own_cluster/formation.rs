//! A ComputeDomain whose daemons are replaced while it forms.

use e2e::TestCluster;

/// mnnvl-controller is killed while the first domain forms, and the API server while the second one forms. So the test has a control plane
/// of its own.
#[tokio::test(flavor = "multi_thread")]
async fn domains_form_while_daemons_are_replaced() {
    TestCluster::soak("formation", &["--runs", "2", "--nodes", "36"]).await;
}
