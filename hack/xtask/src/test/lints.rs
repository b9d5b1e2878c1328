//! Formatting and lints, as far as the toolchain has the tools for them.

use super::group::passes;
use crate::workspace;
use anyhow::Result;
use std::process::Stdio;

/// Each component of the toolchain, and what it is asked.
const LINTS: [(&str, &[&str]); 2] = [
    ("rustfmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
];

/// Whether there is nothing to complain about.
pub(crate) async fn are_silent() -> Result<bool> {
    let mut silent = true;
    for (component, arguments) in LINTS {
        if !is_installed(arguments[0]).await {
            println!("not run: {component} is not installed; `rustup component add {component}` brings it");
            continue;
        }
        println!("cargo {}", arguments.join(" "));
        let mut cargo = workspace::cargo();
        cargo.args(arguments);
        silent &= passes(cargo).await?;
    }
    Ok(silent)
}

async fn is_installed(subcommand: &str) -> bool {
    let mut cargo = workspace::cargo();
    let asked = cargo.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().await.is_ok_and(|status| status.success())
}
