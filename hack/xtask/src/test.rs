//! `test`: everything from unit to end-to-end, on a shared control plane that is brought down whatever happens.

pub(crate) mod group;
mod lints;
pub(crate) mod planes;

use self::group::passes;
use self::planes::{Planes, has_faults};
use crate::args::{Source, Wish};
use crate::interrupt::interrupted;
use crate::kubectl::Kubectl;
use crate::plane::{Afterwards, Plane, with_plane};
use crate::workspace;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;
use xtask::generate;
use xtask::permissions::{self, Requests};

/// Folder of the plane that the end-to-end tests share.
const SHARED: &str = "target/grove-test";
/// What its services are told.
const CONFIGURATION: &str = "e2e/configuration.yaml";
/// The module of tests that need planes of their own.
const OWN_CLUSTERS: &str = "it::own_cluster::";
/// The module of tests whose pods are told how to behave, which only simulated kubelets obey.
const SIMULATED: &str = "it::pods::";

/// How Cargo chooses the tests that need no control plane.
const ALONE: [&str; 3] = ["--workspace", "--exclude", "e2e"];
/// How Cargo chooses the end-to-end tests.
pub(crate) const END_TO_END: [&str; 3] = ["--workspace", "--test", "e2e"];

/// Runs the end-to-end tests even if others failed, so that one run shows everything.
pub(crate) async fn run(source: &Source, filter: Option<&str>, dir: Option<PathBuf>) -> Result<()> {
    let planes = Planes::take(dir.unwrap_or_else(|| workspace::root().join(SHARED))).await?;
    if let Some(filter) = filter {
        tokio::select! {
            found = some_test_is_meant(filter) => found?,
            reason = interrupted() => return Err(reason),
        }
    }
    let alone = async {
        let silent = filter.is_some() || lints::are_silent().await?;
        Ok::<_, anyhow::Error>(passes(cargo_test(&ALONE, filter)).await? && silent)
    };
    let alone = tokio::select! {
        passed = alone => passed?,
        reason = interrupted() => return Err(reason),
    };
    let config = workspace::root().join(CONFIGURATION);
    let wish = Wish { dir: Some(planes.shared.clone()), config: Some(config), ..Wish::default() };
    let together = with_plane(source, &wish, Afterwards::Ends, async |plane: &mut Plane| {
        let mut tests = end_to_end(source, filter);
        if source.kubeconfig.is_some() {
            tests.args(left_out(&plane.kubectl).await?);
        }
        tests.env("GROVE_TEST_DIR", &plane.dir).env("GROVE_XTASK", workspace::binary("xtask")?);
        if !plane.while_alive(passes(tests)).await? {
            bail!(
                "end-to-end tests failed; logs of the control plane and the services: {}",
                plane.dir.join("log").display()
            );
        }
        Ok(())
    })
    .await;
    let ended = planes.end_own().await;
    together.and(ended)?;
    planes.nothing_panicked()?;
    if filter.is_none() && source.kubeconfig.is_none() {
        check_permissions(&planes.all()?)?;
    }
    if !alone {
        bail!("tests or lints failed; see above");
    }
    Ok(())
}

/// A filter that fits no test is a slip, and no test that passed.
async fn some_test_is_meant(filter: &str) -> Result<()> {
    for packages in [ALONE.as_slice(), END_TO_END.as_slice()] {
        let mut listing = cargo_test(packages, Some(filter));
        let listed = listing.args(["--list", "--format=terse"]).stderr(Stdio::inherit()).output().await?;
        if !listed.status.success() {
            bail!("the tests cannot be listed; see above");
        }
        if names_a_test(&String::from_utf8_lossy(&listed.stdout)) {
            return Ok(());
        }
    }
    bail!("no test has {filter:?} in its name; `cargo test --workspace -- --list` names all")
}

/// Whether a list of tests, as `--list --format=terse` prints it, is not empty.
fn names_a_test(listed: &str) -> bool {
    listed.lines().any(|line| line.ends_with(": test"))
}

/// Each service was allowed exactly what its rules grant, and used all of it.
fn check_permissions(planes: &[PathBuf]) -> Result<()> {
    let mut requests = Requests::default();
    for dir in planes {
        let log = std::fs::read_to_string(dir.join("audit.log")).unwrap_or_default();
        requests.read(&log, has_faults(dir))?;
    }
    let granted = generate::rules().iter().flat_map(|(service, rules)| permissions::granted(service, rules)).collect();
    let complaints = requests.complaints(&granted);
    if !complaints.is_empty() {
        bail!("the rules of the services are not what they need:\n  {}", complaints.join("\n  "));
    }
    println!("audit logs: {} permissions granted, each of them used, nothing else asked for", granted.len());
    Ok(())
}

/// The end-to-end tests; those with planes of their own take the same binaries. The whole workspace is chosen, and one
/// target of it, because the features of dependencies depend on the packages that are chosen: so nothing is compiled
/// anew.
fn end_to_end(source: &Source, filter: Option<&str>) -> Command {
    let mut tests = cargo_test(&END_TO_END, filter);
    tests.envs(of_source(source));
    tests
}

/// By these variables planes of tests' own take the same binaries.
pub(crate) fn of_source(source: &Source) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let binaries = source.bin_dir.iter().map(|dir| ("GROVE_BIN_DIR", dir));
    binaries.chain(source.cache_dir.iter().map(|dir| ("GROVE_CACHE_DIR", dir)))
}

/// Arguments that leave out what cannot be run on a cluster of somebody's own, each of which is named.
async fn left_out(kubectl: &Kubectl) -> Result<Vec<&'static str>> {
    let nodes = kubectl.run(&["get", "nodes", "--output=jsonpath={.items[*].metadata.annotations}"]).await?;
    let simulated = nodes.contains("kwok.x-k8s.io/node");
    let modules = [Some(OWN_CLUSTERS), Some(SIMULATED).filter(|_| !simulated)];
    let listed = cargo_test(&END_TO_END, None).args(["--list", "--format=terse"]).output().await?;
    println!("not run on a cluster of your own: the comparison of the services' rules with audit logs, and");
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
    use super::names_a_test;

    #[test]
    fn a_list_without_a_test_names_none() {
        assert!(!names_a_test(""));
        assert!(!names_a_test("speed: benchmark\n"));
        assert!(names_a_test("it::scale::a_set_scales_out_and_in: test\n"));
    }
}
