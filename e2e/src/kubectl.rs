//! kubectl, as users run it.

use grove_dev_harness::kubectl::{Error, Kubectl};

use crate::test_cluster::TestCluster;

/// kubectl's own limit for a request for the `OpenAPI` document is 32 s. A loaded machine needs longer.
const REQUEST_TIMEOUT: &str = "--request-timeout=20m";

/// Runs kubectl as cluster admin against the shared cluster, with a discovery cache of its own. `input` is its standard
/// input. Returns its standard output, or its error output if it fails.
///
/// # Panics
/// If kubectl cannot be run.
pub async fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    kubectl_on(&TestCluster::shared(), arguments, input).await
}

/// Like [`kubectl`], against another cluster.
///
/// # Panics
/// If kubectl cannot be run.
pub async fn kubectl_on(cluster: &TestCluster, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut kubectl = Kubectl::new(&cluster.dir().join("kubectl"), cluster.dir());
    kubectl.discovery_cache = cluster.dir().join("kubectl-cache-of-users");
    let arguments = [&[REQUEST_TIMEOUT], arguments].concat();
    kubectl.run_with_input(&arguments, input).await.map_err(|error| match error {
        Error::Failed { stderr, .. } => stderr,
        Error::Run { program, source } => panic!("cannot run {}: {source}", program.display()),
    })
}
