//! What the figures were measured on and of.

use crate::plane::Plane;
use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// One line each about the machine, the control plane and the commit.
pub(super) async fn describe(plane: &Plane) -> Result<Vec<String>> {
    let versions: Value = serde_json::from_str(&plane.kubectl.run(&["version", "--output=json"]).await?)?;
    let server = versions["serverVersion"]["gitVersion"].as_str().unwrap_or("of unknown version");
    Ok(vec![
        format!("Machine: {} x {}, {} of memory, shared by everything that is measured", cores(), model()?, memory()?),
        format!("Kubernetes: {server}; etcd does not wait for the disk"),
        format!("Commit: {}; everything built with --release", commit()?),
    ])
}

/// How many processes wanted to run, on average over the last minute.
pub(super) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or_default()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn model() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    Ok(line.map_or("processor", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned())
}

fn memory() -> Result<String> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let kilobytes = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok()).context("no memory")?;
    Ok(format!("{} GB", kilobytes / 1024 / 1024))
}

fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").current_dir(workspace::root()).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if changed { format!("{commit} with changes on top") } else { commit })
}
