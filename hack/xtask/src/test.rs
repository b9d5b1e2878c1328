//! `test`: everything from unit to end-to-end, on a shared control plane that is brought down whatever happens.

use crate::args::{Source, Wish};
use crate::interrupt::interrupted;
use crate::plane::{self, Afterwards, Plane, with_plane};
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use tokio::process::Command;
use xtask::generate;
use xtask::permissions::{self, Requests};

/// Folder of the plane that the end-to-end tests share; planes of a test's own have longer names.
const SHARED: &str = "target/grove-test";
/// Modules of tests that need a plane of their own.
const OWN_PLANES: [&str; 2] = ["steady::", "faults::"];
/// The plane on which the API server is killed.
const FAULTS: &str = "target/grove-test-faults";

/// Runs the end-to-end tests even if others failed, so that one run shows everything.
pub(crate) async fn run(source: &Source, filter: Option<&str>) -> Result<()> {
    let alone = tokio::select! {
        passed = passes(cargo_test(&["--workspace", "--exclude", "e2e"], filter)) => passed?,
        reason = interrupted() => return Err(reason),
    };
    for dir in planes()? {
        // What a run that was killed has left behind would run on, and its log would count as this run's.
        plane::down(&dir).await?;
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    let wish = Wish { dir: Some(workspace::root().join(SHARED)), ..Wish::default() };
    let together = with_plane(source, &wish, Afterwards::Ends, async |plane: &mut Plane| {
        let mut tests = end_to_end(source, filter);
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
    let planes = planes()?;
    let ended = end_own(&planes).await;
    together.and(ended)?;
    if filter.is_none() && source.kubeconfig.is_none() {
        check_permissions(&planes)?;
    }
    if !alone {
        bail!("tests failed; see above");
    }
    Ok(())
}

/// The folders of the shared plane and of the planes beside it, of tests that disturb others.
fn planes() -> Result<Vec<PathBuf>> {
    let shared = workspace::root().join(SHARED);
    let (Some(parent), Some(prefix)) = (shared.parent(), shared.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let is_plane =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix));
    let paths = std::fs::read_dir(parent)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(is_plane).collect())
}

/// A test that failed has not ended the plane of its own.
async fn end_own(planes: &[PathBuf]) -> Result<()> {
    let mut ended = Ok(());
    for dir in planes.iter().filter(|dir| !dir.ends_with(SHARED) && dir.join("pids.json").exists()) {
        ended = plane::down(dir).await.and(ended);
    }
    ended
}

/// Each service was allowed exactly what its rules grant, and used all of it.
fn check_permissions(planes: &[PathBuf]) -> Result<()> {
    let mut requests = Requests::default();
    for dir in planes {
        let log = std::fs::read_to_string(dir.join("audit.log")).unwrap_or_default();
        requests.read(&log, dir.ends_with(FAULTS))?;
    }
    let granted = generate::rules().iter().flat_map(|(service, rules)| permissions::granted(service, rules)).collect();
    let complaints = requests.complaints(&granted);
    if !complaints.is_empty() {
        bail!("the rules of the services are not what they need:\n  {}", complaints.join("\n  "));
    }
    println!("audit logs: {} permissions granted, each of them used, nothing else asked for", granted.len());
    Ok(())
}

/// The end-to-end tests. Those with planes of their own take the same binaries, and are left out where the cluster is
/// somebody's own.
fn end_to_end(source: &Source, filter: Option<&str>) -> Command {
    let mut tests = cargo_test(&["--package", "e2e"], filter);
    tests.envs(source.bin_dir.iter().map(|dir| ("GROVE_BIN_DIR", dir)));
    tests.envs(source.cache_dir.iter().map(|dir| ("GROVE_CACHE_DIR", dir)));
    if source.kubeconfig.is_some() {
        println!("not run on a cluster of your own: {}, the comparison with the audit log", OWN_PLANES.join(", "));
        tests.args(OWN_PLANES.iter().flat_map(|module| ["--skip", module]));
    }
    tests
}

fn cargo_test(packages: &[&str], filter: Option<&str>) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace::root()).arg("test").args(packages).arg("--").args(filter).kill_on_drop(true);
    cargo
}

async fn passes(mut tests: Command) -> Result<bool> {
    Ok(tests.status().await.context("cannot run cargo")?.success())
}
