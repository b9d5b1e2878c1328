//! The conditions of a measurement: the machine, the versions of the control plane and the commit.

use crate::control_plane::ETCD;
use crate::dev_cluster::DevCluster;
use crate::{proc, workspace};
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;

/// One line each about the machine, the control plane and the commit.
pub(super) async fn describe(cluster: &DevCluster) -> Result<Vec<String>> {
    let versions: Value = serde_json::from_str(&cluster.kubectl.run(&["version", "--output=json"]).await?)?;
    let server = versions["serverVersion"]["gitVersion"].as_str().unwrap_or("of unknown version");
    let [machine, commit] = describe_without_cluster()?;
    Ok(vec![
        machine,
        format!("Kubernetes: {server}; {}, which does not wait for the disk", etcd_version(cluster)?),
        format!("{commit}; all binaries are built with --release"),
    ])
}

/// The first line that etcd prints about its version.
fn etcd_version(cluster: &DevCluster) -> Result<String> {
    let running = cluster.processes.running();
    let (_, pid) = running.into_iter().find(|(name, _)| name == ETCD).context("etcd does not run")?;
    let output = Command::new(format!("/proc/{pid}/exe")).arg("--version").output().context("cannot run etcd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().context("etcd prints no version")?.to_owned())
}

/// One line about the machine, and the begin of one about the commit.
pub(crate) fn describe_without_cluster() -> Result<[String; 2]> {
    let (cores, model, memory) = (cores(), proc::cpu_model()?, proc::machine_memory_gb());
    let machine = format!("Machine: {cores} x {model}, {memory} GB of memory, shared by all measured processes");
    Ok([machine, format!("Commit: {}", commit()?)])
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").current_dir(workspace::root()).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if is_changed { format!("{commit} with uncommitted changes") } else { commit })
}
