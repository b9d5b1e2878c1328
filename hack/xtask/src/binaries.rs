//! The six unmodified binaries of the control plane: from a given folder, or built once per set of pinned versions and cached
//! outside the clone.

use crate::args::Source;
use crate::workspace;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) const NAMES: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl"];

const PACKAGES: [&str; 6] = [
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubectl",
    "sigs.k8s.io/kwok/cmd/kwok",
];

const NO_GO: &str = "the control plane is built from source and there is no Go toolchain here.\n\
    Install Go 1.26 or newer (https://go.dev/dl/), or give --kubeconfig FILE (a cluster of your own)\n\
    or --bin-dir DIR (a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, kubectl)";

/// The cache of built control planes.
pub(crate) fn cache(source: &Source) -> Result<PathBuf> {
    let base = source
        .cache_dir
        .clone()
        .or_else(|| source.xdg_cache_home.clone())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("no home folder for the cache; give --cache-dir DIR")?;
    Ok(std::path::absolute(base)?.join("grove/controlplane"))
}

/// The folder with all six binaries. Builds them if they are not in the cache.
pub(crate) async fn folder(source: &Source) -> Result<PathBuf> {
    if let Some(given) = &source.bin_dir {
        let missing: Vec<&str> = NAMES.into_iter().filter(|name| !given.join(name).is_file()).collect();
        if !missing.is_empty() {
            bail!("--bin-dir {}: missing {}", given.display(), missing.join(", "));
        }
        return Ok(std::path::absolute(given)?);
    }
    let cache = cache(source)?;
    let folder = cache.join(pinned_versions()?);
    if !folder.is_dir() {
        build_once(&cache, &folder).await?;
    }
    Ok(folder)
}

/// Finds a kubectl for a cluster that `cargo xtask` did not start.
pub(crate) fn any_kubectl(source: &Source) -> Result<PathBuf> {
    let built = cache(source).ok().and_then(|cache| Some(cache.join(pinned_versions().ok()?)));
    let known = [source.bin_dir.clone(), built].into_iter().flatten().map(|folder| folder.join("kubectl"));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join("kubectl")).collect::<Vec<_>>());
    known
        .chain(on_path)
        .find(|candidate| candidate.is_file())
        .context("there is no kubectl: install it, or give --bin-dir DIR with one in it")
}

/// A short hash of the files that pin the versions.
fn pinned_versions() -> Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = workspace::control_plane().join(file);
        hash.update(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(workspace::hex(&hash.finalize()[..8]))
}

/// Builds the binaries under a lock: if two clones need the same binaries, one builds them and the other waits.
async fn build_once(cache: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock = File::create(folder.with_added_extension("lock"))?;
    if lock.try_lock().is_err() {
        println!("waiting for another build of the same control plane");
        acquire(&lock).await?;
    }
    if folder.is_dir() {
        return Ok(());
    }
    let unfinished = folder.with_added_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::create_dir_all(&unfinished)?;
    build(&unfinished).await?;
    std::fs::rename(unfinished.join("server"), unfinished.join("etcd"))?;
    std::fs::rename(&unfinished, folder)?;
    Ok(())
}

/// Waits for the lock without blocking the thread, so that Ctrl-C still works.
async fn acquire(lock: &File) -> Result<()> {
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(300)).await,
            Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

async fn build(into: &Path) -> Result<()> {
    let version = version()?;
    let (major, minor) = major_minor(&version).with_context(|| format!("{version} is not a Kubernetes version"))?;
    let stamp = "-X k8s.io/component-base/version";
    let flags = format!("-s -w {stamp}.gitVersion={version} {stamp}.gitMajor={major} {stamp}.gitMinor={minor}");
    let child = Command::new("go")
        .current_dir(workspace::control_plane())
        .env("CGO_ENABLED", "0")
        .args(["build", "-v", "-o"])
        .arg(into)
        .args(["-ldflags", &flags])
        .args(PACKAGES)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    match child {
        Ok(child) => {
            println!("building the control plane (once for all clones; about four minutes on two cores)");
            report_progress(child).await
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(NO_GO),
        Err(error) => Err(error).context("cannot run go"),
    }
}

/// Prints the progress of the build every few seconds, and the last output of Go if the build fails.
async fn report_progress(mut child: Child) -> Result<()> {
    let began = Instant::now();
    let output = child.stderr.take().context("go has no standard error")?;
    let mut lines = BufReader::new(output).lines();
    let (mut fetched, mut compiled) = (0_u32, 0_u32);
    let mut last = VecDeque::new();
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { break };
                if line.starts_with("go: downloading") { fetched += 1 } else { compiled += 1 }
                last.push_back(line);
                if last.len() > 20 { last.pop_front(); }
            }
            _ = tick.tick() => if fetched + compiled > 0 {
                println!("  {:>4} s: {fetched} modules fetched, {compiled} packages compiled", began.elapsed().as_secs());
            }
        }
    }
    if !child.wait().await?.success() {
        bail!("go build failed:\n{}", last.into_iter().collect::<Vec<_>>().join("\n"));
    }
    println!("  built in {} s", began.elapsed().as_secs());
    Ok(())
}

/// The Kubernetes version that go.mod pins. The build stamps it into the binaries: without the stamp, kubectl cannot parse the
/// version of the server.
fn version() -> Result<String> {
    let path = workspace::control_plane().join("go.mod");
    let text = std::fs::read_to_string(&path)?;
    text.lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix("k8s.io/kubernetes "))
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("{} does not pin k8s.io/kubernetes", path.display()))
}

fn major_minor(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::{major_minor, version};

    #[test]
    fn the_version_is_read_from_go_mod() {
        let version = version().unwrap();
        let (major, minor) = major_minor(&version).unwrap();
        assert_eq!(major, "1");
        assert!(minor.parse::<u8>().unwrap() >= 34, "{version}");
        assert_eq!(major_minor("1.36"), None);
    }
}
