//! `test`: all tests, from unit to end-to-end, and the checks of the audit logs and service logs.

pub(crate) mod dev_clusters;
mod lints;
pub(crate) mod process_group;
mod report;
mod resource_usage;

use self::dev_clusters::{DevClusters, has_faults};
use self::report::Report;
use self::resource_usage::ResourceUsage;
use crate::args::{Source, TestArgs, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::interrupt::interrupted;
use crate::workspace;
use anyhow::{Context, Result, bail};
use grove_dev_harness::audit_log;
use grove_dev_harness::kubectl::Kubectl;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;
use tokio::sync::oneshot;
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

/// The tests that need no control plane. There are no tests in the documentation.
const WITHOUT_CLUSTER: [&str; 4] = ["--workspace", "--exclude", "e2e", "--tests"];
/// The end-to-end tests. The selection has the whole workspace and one target of it: the features of dependencies depend on
/// the selected packages, so Cargo compiles nothing again.
pub(crate) const END_TO_END: [&str; 3] = ["--workspace", "--test", "e2e"];

/// Nodes of the shared dev cluster.
const NODES: u32 = 30;
/// How many end-to-end tests run at a time. They mostly wait, so there are more than processors.
const END_TO_END_THREADS: &str = "5";

/// Builds everything, and runs the lints and all tests. The end-to-end tests run even if other tests failed, so that one run shows all
/// failures.
pub(crate) async fn run(source: &Source, args: &TestArgs) -> Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| workspace::root().join(SHARED));
    let clusters = DevClusters::prepare(dir).await?;
    let report = Report::start(clusters.test_times()?);
    let mut usage = ResourceUsage::start()?;
    let outcome = tokio::select! {
        // On the heap: these are large futures.
        outcome = Box::pin(build_and_test(source, args, &clusters, &report)) => outcome,
        failed = usage.sample_forever() => failed.map(|never| match never {}),
    };
    if args.filter.is_none() {
        report.publish(&usage, if args.fast { "test --fast" } else { "test" })?;
    }
    outcome?;
    if args.filter.is_none() && !args.fast && source.kubeconfig.is_none() {
        check_permissions(&clusters.folders()?)?;
    }
    Ok(())
}

/// Starts the shared control plane while Cargo builds the workspace.
async fn build_and_test(source: &Source, args: &TestArgs, clusters: &DevClusters, report: &Report) -> Result<()> {
    let (sender, completion) = oneshot::channel();
    let build = async {
        let passed = tokio::select! {
            passed = build_and_lint(args, report) => passed?,
            reason = interrupted() => return Err(reason),
        };
        // Without a control plane there is no receiver.
        _ = sender.send(());
        Ok(passed)
    };
    let control_plane = UpArgs { no_services: true, ..up_args(clusters) };
    let tests = with_dev_cluster(source, &control_plane, OnExit::Stop, async |cluster: &mut DevCluster| {
        completion.await.context("without the build there are no tests")?;
        Box::pin(run_tests(source, args, cluster, (clusters, report))).await
    });
    let (lints_passed, tests) = tokio::join!(build, tests);
    let ended = clusters.end_own().await;
    let lints_passed = lints_passed?;
    tests.and(ended)?;
    clusters.check_for_panics()?;
    if !lints_passed {
        bail!("the lints failed; see above");
    }
    Ok(())
}

/// Compiles all services and tests, so that Cargo compiles nothing while tests run. Returns whether the lints pass.
async fn build_and_lint(args: &TestArgs, report: &Report) -> Result<bool> {
    let mut build = workspace::cargo();
    build.args(["build", "--workspace", "--all-targets"]);
    if !report.part("build", process_group::run(build)).await? {
        bail!("the workspace does not compile");
    }
    if let Some(filter) = &args.filter {
        require_match(filter).await?;
        return Ok(true);
    }
    report.part("lints", lints::pass()).await
}

/// Runs the unit tests beside the end-to-end tests, which mostly wait.
async fn run_tests(
    source: &Source,
    args: &TestArgs,
    cluster: &mut DevCluster,
    (clusters, report): (&DevClusters, &Report),
) -> Result<()> {
    let policies = workspace::root().join(CONTROLLER_POLICY);
    let policies = std::fs::read_to_string(&policies).with_context(|| format!("cannot read {}", policies.display()))?;
    let unit_tests =
        report.part("unit tests", process_group::run_quietly(cargo_test(&WITHOUT_CLUSTER, args.filter.as_deref())));
    let end_to_end = report.part("end-to-end tests", async {
        cluster.start(source, &up_args(clusters)).await?;
        cluster.kubectl.apply(&policies).await?;
        let tests = end_to_end_tests(source, args, cluster, report).await?;
        cluster.while_alive(process_group::run(tests)).await
    });
    let (unit_tests, end_to_end) = tokio::join!(unit_tests, end_to_end);
    if !end_to_end? {
        bail!(
            "end-to-end tests failed; logs of the control plane and the services: {}",
            clusters.shared.join("log").display()
        );
    }
    if !unit_tests? {
        bail!("tests failed; see above");
    }
    Ok(())
}

fn up_args(clusters: &DevClusters) -> UpArgs {
    let config = workspace::root().join(CONFIGURATION);
    UpArgs {
        dir: Some(clusters.shared.clone()),
        config: Some(config),
        nodes: Some(NODES),
        no_build: true,
        ..UpArgs::default()
    }
}

/// The end-to-end tests on the shared dev cluster and, unless only the fast ones shall run, on others.
async fn end_to_end_tests(source: &Source, args: &TestArgs, cluster: &DevCluster, report: &Report) -> Result<Command> {
    let mut tests = cargo_test(&END_TO_END, args.filter.as_deref());
    tests.args(["--test-threads", END_TO_END_THREADS]).envs(binary_variables(source));
    if source.kubeconfig.is_some() {
        tests.args(skipped_modules(&cluster.kubectl).await?);
    } else if args.fast {
        tests.args(["--skip", OWN_CLUSTERS]);
    }
    tests.env("GROVE_TEST_DIR", &cluster.dir).env("GROVE_XTASK", workspace::binary("xtask")?);
    tests.env("GROVE_TEST_TIMES", &report.test_times);
    Ok(tests)
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
