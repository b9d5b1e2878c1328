//! Formatting and lints, if the toolchain has the components for them.

use super::process_group::run;
use crate::workspace;
use anyhow::Result;
use std::process::Stdio;

/// The components of the toolchain, and the Cargo arguments that run them.
const LINTS: [(&str, &[&str]); 2] = [
    ("rustfmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
];

/// Runs the lints and returns whether all of them pass.
pub(crate) async fn pass() -> Result<bool> {
    let mut passed = true;
    for (component, arguments) in LINTS {
        if !is_installed(arguments[0]).await {
            println!("skipped: {component} is not installed; `rustup component add {component}` installs it");
            continue;
        }
        println!("cargo {}", arguments.join(" "));
        let mut cargo = workspace::cargo();
        cargo.args(arguments);
        passed &= run(cargo).await?;
    }
    Ok(passed)
}

async fn is_installed(subcommand: &str) -> bool {
    let mut cargo = workspace::cargo();
    let version = cargo.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().await.is_ok_and(|status| status.success())
}
