//! Formatting and lints.

use super::process_group::run;
use crate::workspace;
use anyhow::Result;

/// The Cargo arguments of the lints. `rust-toolchain.toml` lists their components. Without a component, Cargo fails.
const LINTS: [&[&str]; 2] =
    [&["fmt", "--all", "--check"], &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"]];

/// Runs the lints and returns whether all of them pass.
pub(crate) async fn pass() -> Result<bool> {
    let mut passed = true;
    for arguments in LINTS {
        println!("cargo {}", arguments.join(" "));
        let mut cargo = workspace::cargo();
        cargo.args(arguments);
        passed &= run(cargo).await?;
    }
    Ok(passed)
}
