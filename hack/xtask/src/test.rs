//! `test`: everything from unit to end-to-end, on a shared control plane that is brought down whatever happens.

use crate::args::{Source, Wish};
use crate::interrupt::interrupted;
use crate::plane::{self, Afterwards, Plane, with_plane};
use crate::workspace;
use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Folder of the plane that the end-to-end tests share; planes of a test's own have longer names.
const SHARED: &str = "target/grove-test";

/// Runs the end-to-end tests even if others failed, so that one run shows everything.
pub(crate) async fn run(source: &Source, filter: Option<&str>) -> Result<()> {
    let alone = tokio::select! {
        passed = passes(cargo_test(&["--workspace", "--exclude", "e2e"], filter)) => passed?,
        reason = interrupted() => return Err(reason),
    };
    let wish = Wish { dir: Some(workspace::root().join(SHARED)), ..Wish::default() };
    let together = with_plane(source, &wish, Afterwards::Ends, async |plane: &mut Plane| {
        let mut tests = cargo_test(&["--package", "e2e"], filter);
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
    end_own_planes().await?;
    together?;
    if !alone {
        bail!("tests failed; see above");
    }
    Ok(())
}

/// Tests that disturb others have planes beside the shared one; one that failed has not ended its own.
async fn end_own_planes() -> Result<()> {
    let shared = workspace::root().join(SHARED);
    let (Some(parent), Some(prefix)) = (shared.parent(), shared.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        let own = entry.file_name().to_str().is_some_and(|name| name != prefix && name.starts_with(prefix));
        if own && entry.path().join("pids.json").exists() {
            plane::down(&entry.path()).await?;
        }
    }
    Ok(())
}

fn cargo_test(packages: &[&str], filter: Option<&str>) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace::root()).arg("test").args(packages).arg("--").args(filter).kill_on_drop(true);
    cargo
}

async fn passes(mut tests: Command) -> Result<bool> {
    Ok(tests.status().await.context("cannot run cargo")?.success())
}
