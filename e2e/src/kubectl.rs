//! kubectl, as users run it.

use std::env::{join_paths, split_paths, var_os};

use grove_dev_harness::kubectl::{Error, Kubectl};
use tokio::process::Command;

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

/// Runs a command of the documentation in bash, with kubectl as cluster admin of this cluster. Returns its standard output. Each program of a
/// pipeline must succeed.
///
/// # Panics
/// If bash cannot be run, or the command fails.
pub async fn run_in_bash(cluster: &TestCluster, command: &str) -> String {
    let dir = cluster.dir();
    let path = var_os("PATH").unwrap_or_default();
    let path = join_paths([dir.to_owned()].into_iter().chain(split_paths(&path))).expect("a path");
    let mut bash = Command::new("bash");
    bash.args(["-o", "pipefail", "-c", command]).env("PATH", path).env("KUBECONFIG", dir.join("admin.kubeconfig"));
    bash.env("KUBECACHEDIR", dir.join("kubectl-cache-of-users")).kill_on_drop(true);
    let output = bash.output().await.expect("bash runs");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command}\n{stderr}");
    stdout
}
