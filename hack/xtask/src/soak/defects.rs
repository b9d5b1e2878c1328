//! `soak defects`: each planted defect of `crates/grove-rehearsal/defects.yaml` makes its film fail.

use crate::interrupt::interrupted;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::Path;
use std::process::Stdio;

const DEFECTS: &str = "crates/grove-rehearsal/defects.yaml";
/// The copy of the repository, whose files this changes.
const COPY: &str = "target/defects";

/// A line that implements a rule, and what replaces it.
#[derive(Deserialize)]
struct Defect {
    rule: String,
    film: String,
    file: String,
    line: String,
    replacement: String,
}

/// Runs the films without a defect, and then each defect's film with it.
pub(crate) async fn run() -> Result<()> {
    tokio::select! {
        outcome = run_all() => outcome,
        reason = interrupted() => Err(reason),
    }
}

async fn run_all() -> Result<()> {
    let root = workspace::root().join(COPY);
    copy_repository(&root)?;
    let defects: Vec<Defect> = serde_saphyr::from_str(&std::fs::read_to_string(root.join(DEFECTS))?)?;
    // A test checks that each defect fits one line.
    ensure!(films_pass(&root, "").await?, "the films fail without a defect");
    let mut missed = Vec::new();
    for Defect { rule, film, file, line, replacement } in &defects {
        let path = root.join(file);
        let content = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        std::fs::write(&path, content.replace(line, replacement))?;
        let passed = films_pass(&root, &format!("films::{film}")).await;
        std::fs::write(&path, content)?;
        let is_missed = passed.with_context(|| format!("the defect does not compile: {rule}"))?;
        println!("{}: {rule}: {film}", if is_missed { "MISSED" } else { "found" });
        missed.extend(is_missed.then_some(rule.as_str()));
    }
    if !missed.is_empty() {
        bail!("no film fails without the rule: {}", missed.join("; "));
    }
    println!("the films found all {} defects", defects.len());
    Ok(())
}

/// Copies the files that git knows, in their present state.
fn copy_repository(to: &Path) -> Result<()> {
    let root = workspace::root();
    let listed = std::process::Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
    ensure!(listed.status.success(), "git cannot list the files of {}", root.display());
    for file in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(file), to.join(file));
        let Ok(content) = std::fs::read(&from) else { continue };
        // An unchanged file keeps its time, so Cargo does not compile it again.
        if std::fs::read(&to).is_ok_and(|old| old == content) {
            continue;
        }
        std::fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        std::fs::write(to, content)?;
    }
    Ok(())
}

/// Whether the films pass.
///
/// # Errors
/// If they do not compile.
async fn films_pass(root: &Path, filter: &str) -> Result<bool> {
    let mut build = workspace::cargo();
    build.args(["test", "--quiet", "--package", "grove-rehearsal", "--test=it", "--no-run"]);
    build.current_dir(root).env("CARGO_TARGET_DIR", root.join("target")).kill_on_drop(true);
    ensure!(build.status().await?.success(), "the films do not compile");
    let mut tests = workspace::cargo();
    tests.args(["test", "--quiet", "--package", "grove-rehearsal", "--test=it", filter]);
    tests.current_dir(root).env("CARGO_TARGET_DIR", root.join("target")).kill_on_drop(true);
    let output = tests.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await?;
    Ok(output.status.success())
}
