//! The folder of a dev cluster: its lock, and the files that are removed when the dev cluster starts and ends.

use super::crds::APPLIED;
use crate::credentials;
use anyhow::{Context, Result, bail};
use grove_dev_harness::state_file::{PORTS, PROCESSES};
use std::fs::File;
use std::path::Path;

/// State of the processes; it is removed when the last process has ended.
const STATE: [&str; 8] = ["etcd", "pki", "sa", "kubectl-cache", PORTS, PROCESSES, "config.yaml", APPLIED];
/// Logs; they stay for inspection until the next dev cluster starts in the folder.
const LOGS: [&str; 2] = ["log", "audit.log"];
/// How the names of rotated audit logs begin.
const ROTATED_AUDIT_LOG: &str = "audit-";

/// The lock file. Only one `cargo xtask` at a time starts or ends processes of a dev cluster. The file also marks the folder as
/// one of a dev cluster.
const LOCK: &str = "lock";

/// Marks an empty folder as one of a dev cluster. Fails for a folder with other files, because the dev cluster removes files.
pub(super) fn claim(dir: &Path) -> Result<()> {
    let empty = std::fs::read_dir(dir)?.next().is_none();
    if !empty && !dir.join(LOCK).exists() {
        bail!("--dir {} has files that do not belong to a dev cluster; give an empty or a new folder", dir.display());
    }
    File::options().create(true).append(true).open(dir.join(LOCK))?;
    Ok(())
}

/// Takes the lock of the folder, or fails if another process has it.
pub(super) fn lock(dir: &Path) -> Result<File> {
    let lock = File::create(dir.join(LOCK))?;
    if lock.try_lock().is_err() {
        bail!("another `cargo xtask` is starting or ending the dev cluster in {}", dir.display());
    }
    Ok(lock)
}

/// Removes the state, and no other file of the folder.
pub(super) fn remove_state(dir: &Path) -> Result<()> {
    STATE.iter().try_for_each(|name| remove(&dir.join(name)))?;
    credentials::kubeconfigs(dir).try_for_each(|kubeconfig| remove(&kubeconfig))
}

/// Removes the logs, and the parts of the audit log that the API server has rotated.
pub(super) fn remove_logs(dir: &Path) -> Result<()> {
    LOGS.iter().try_for_each(|name| remove(&dir.join(name)))?;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(ROTATED_AUDIT_LOG)).try_for_each(|name| remove(&dir.join(name)))
}

/// Removes a file or a folder, if there is one.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{claim, lock, remove_logs, remove_state};

    #[test]
    fn foreign_files_are_never_removed() {
        let dir = std::env::temp_dir().join(format!("grove-folder-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("log")).unwrap();
        assert!(claim(&dir).is_err(), "the folder has a file and no lock");
        std::fs::remove_dir(dir.join("log")).unwrap();
        claim(&dir).unwrap();
        for file in ["audit.log", "audit-1.log", "pids.json", "admin.kubeconfig", "notes.txt"] {
            std::fs::write(dir.join(file), "").unwrap();
        }
        remove_state(&dir).unwrap();
        remove_logs(&dir).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["lock", "notes.txt"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_second_lock_is_rejected() {
        let dir = std::env::temp_dir().join(format!("grove-lock-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let first = lock(&dir).unwrap();
        assert!(lock(&dir).is_err());
        drop(first);
        lock(&dir).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
