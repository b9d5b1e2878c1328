//! `test`: everything from unit to end-to-end, on a shared control plane that is brought down whatever happens.

use crate::args::{Source, Wish};
use crate::interrupt::interrupted;
use crate::plane::{Afterwards, Plane, with_plane};
use crate::workspace;
use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Runs the end-to-end tests even if others failed, so that one run shows everything.
pub(crate) async fn run(source: &Source, filter: Option<&str>) -> Result<()> {
    let alone = tokio::select! {
        passed = passes(cargo_test(&["--workspace", "--exclude", "e2e"], filter)) => passed?,
        reason = interrupted() => return Err(reason),
    };
    let wish = Wish { dir: Some(workspace::root().join("target/grove-test")), ..Wish::default() };
    with_plane(source, &wish, Afterwards::Ends, async |plane: &mut Plane| {
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
    .await?;
    if !alone {
        bail!("tests failed; see above");
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
