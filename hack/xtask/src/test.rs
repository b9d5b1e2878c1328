//! `test`: all tests, from unit to end-to-end, and the checks of the audit logs and service logs.

pub(crate) mod dev_clusters;
mod lints;
pub(crate) mod process_group;

use self::dev_clusters::{DevClusters, has_faults};
use crate::args::{Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::interrupt::interrupted;
use crate::workspace;
use anyhow::{Context, Result, bail};
use grove_dev_harness::audit_log;
use grove_dev_harness::kubectl::Kubectl;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;
use xtask::permissions::{self, Requests};

/// Folder of the dev cluster that the end-to-end tests share.
const SHARED: &str = "target/grove-test";
/// The configuration of its services.
const CONFIGURATION: &str = "e2e/configuration.yaml";
/// An optional component that the shared dev cluster has, so that the tests show that it allows the writes of the controllers.
const CONTROLLER_POLICY: &str = "deploy/components/controller-policy/policies.yaml";
/// The module of tests with dev clusters of their own.
const OWN_CLUSTERS: &str = "it::own_cluster::";
/// The module of tests that need simulated kubelets, because annotations control how their pods behave.
const SIMULATED: &str = "it::pods::";

/// The packages whose tests need no control plane.
const WITHOUT_CLUSTER: [&str; 3] = ["--workspace", "--exclude", "e2e"];
/// The end-to-end tests. The selection has the whole workspace and one target of it: the features of dependencies depend on
/// the selected packages, so Cargo compiles nothing again.
pub(crate) const END_TO_END: [&str; 3] = ["--workspace", "--test", "e2e"];

/// How many end-to-end tests run at a time. They mostly wait, so there are more than processors.
const END_TO_END_THREADS: &str = "3";

/// Runs the lints and all tests. The end-to-end tests run even if other tests failed, so that one run shows all failures.
pub(crate) async fn run(source: &Source, filter: Option<&str>, dir: Option<PathBuf>) -> Result<()> {
    let clusters = DevClusters::prepare(dir.unwrap_or_else(|| workspace::root().join(SHARED))).await?;
    if let Some(filter) = filter {
        tokio::select! {
            matches = require_match(filter) => matches?,
            reason = interrupted() => return Err(reason),
        }
    }
    let without_cluster = async {
        let lints_passed = filter.is_some() || lints::pass().await?;
        Ok::<_, anyhow::Error>(process_group::run(cargo_test(&WITHOUT_CLUSTER, filter)).await? && lints_passed)
    };
    let passed = tokio::select! {
        passed = without_cluster => passed?,
        reason = interrupted() => return Err(reason),
    };
    let end_to_end = run_end_to_end(source, filter, &clusters).await;
    let ended = clusters.end_own().await;
    end_to_end.and(ended)?;
    clusters.check_for_panics()?;
    if filter.is_none() && source.kubeconfig.is_none() {
        check_permissions(&clusters.folders()?)?;
    }
    if !passed {
        bail!("tests or lints failed; see above");
    }
    Ok(())
}

async fn run_end_to_end(source: &Source, filter: Option<&str>, clusters: &DevClusters) -> Result<()> {
    let config = workspace::root().join(CONFIGURATION);
    let args = UpArgs { dir: Some(clusters.shared.clone()), config: Some(config), ..UpArgs::default() };
    let policies = workspace::root().join(CONTROLLER_POLICY);
    let policies = std::fs::read_to_string(&policies).with_context(|| format!("cannot read {}", policies.display()))?;
    with_dev_cluster(source, &args, OnExit::Stop, async |cluster: &mut DevCluster| {
        cluster.kubectl.apply(&policies).await?;
        let mut tests = cargo_test(&END_TO_END, filter);
        tests.args(["--test-threads", END_TO_END_THREADS]).envs(binary_variables(source));
        if source.kubeconfig.is_some() {
            tests.args(skipped_modules(&cluster.kubectl).await?);
        }
        tests.env("GROVE_TEST_DIR", &cluster.dir).env("GROVE_XTASK", workspace::binary("xtask")?);
        if !cluster.while_alive(process_group::run(tests)).await? {
            bail!(
                "end-to-end tests failed; logs of the control plane and the services: {}",
                cluster.dir.join("log").display()
            );
        }
        Ok(())
    })
    .await
}

/// Fails if no test matches the filter: the filter is misspelt, and a run without tests must not pass.
async fn require_match(filter: &str) -> Result<()> {
    for packages in [WITHOUT_CLUSTER.as_slice(), END_TO_END.as_slice()] {
        let mut listing = cargo_test(packages, Some(filter));
        let listed = listing.args(["--list", "--format=terse"]).stderr(Stdio::inherit()).output().await?;
        if !listed.status.success() {
            bail!("cannot list the tests; see above");
        }
        if lists_a_test(&String::from_utf8_lossy(&listed.stdout)) {
            return Ok(());
        }
    }
    bail!("no test has {filter:?} in its name; `cargo test --workspace -- --list` lists all names")
}

/// Whether the output of `--list --format=terse` has a test.
fn lists_a_test(listed: &str) -> bool {
    listed.lines().any(|line| line.ends_with(": test"))
}

/// Checks that the API server allowed each service exactly what its rules grant, and that the services used all of it.
fn check_permissions(folders: &[PathBuf]) -> Result<()> {
    let mut requests = Requests::default();
    for dir in folders.iter().filter(|dir| dir.join("audit.log").is_file()) {
        requests.record(&audit_log::read(dir)?, has_faults(dir));
    }
    let granted = permissions::granted_to_all();
    let violations = requests.violations(&granted, &permissions::probes());
    if !violations.is_empty() {
        bail!("the RBAC rules of the services differ from their requests:\n  {}", violations.join("\n  "));
    }
    println!("audit logs: the services used each of their {} permissions and no other", granted.len());
    Ok(())
}

/// The variables that make tests start their own dev clusters from the same binaries.
pub(crate) fn binary_variables(source: &Source) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let binaries = source.bin_dir.iter().map(|dir| ("GROVE_BIN_DIR", dir));
    binaries.chain(source.cache_dir.iter().map(|dir| ("GROVE_CACHE_DIR", dir)))
}

/// Arguments that skip the tests that cannot run on the user's own cluster. Prints the names of those tests.
async fn skipped_modules(kubectl: &Kubectl) -> Result<Vec<&'static str>> {
    let nodes = kubectl.run(&["get", "nodes", "--output=jsonpath={.items[*].metadata.annotations}"]).await?;
    let simulated = nodes.contains("kwok.x-k8s.io/node");
    let modules = [Some(OWN_CLUSTERS), Some(SIMULATED).filter(|_| !simulated)];
    let listed = cargo_test(&END_TO_END, None).args(["--list", "--format=terse"]).output().await?;
    println!("skipped on your own cluster: the comparison of the RBAC rules with the audit logs, and these tests:");
    let mut arguments = Vec::new();
    for module in modules.into_iter().flatten() {
        let of_module = |line: &&str| line.starts_with(module);
        for test in String::from_utf8_lossy(&listed.stdout).lines().filter(of_module) {
            println!("  {}", test.trim_end_matches(": test"));
        }
        arguments.extend(["--skip", module]);
    }
    Ok(arguments)
}

pub(crate) fn cargo_test(packages: &[&str], filter: Option<&str>) -> Command {
    let mut cargo = workspace::cargo();
    cargo.arg("test").args(packages).arg("--").args(filter);
    cargo
}

#[cfg(test)]
mod tests {
    use super::lists_a_test;

    #[test]
    fn a_list_without_tests_is_recognised() {
        assert!(!lists_a_test(""));
        assert!(!lists_a_test("speed: benchmark\n"));
        assert!(lists_a_test("it::scale::a_set_scales_out_and_in: test\n"));
    }
}
