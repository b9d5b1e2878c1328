//! The dev clusters of one test run: the shared one, and those of tests that disturb others.

use crate::{dev_cluster, workspace};
use anyhow::{Context, Result, bail};
use grove_dev_harness::state_file::PROCESSES;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Separates the folder name of the shared dev cluster from the name that a test gives to its own.
const OWN: &str = ".own.";
/// The prefix of the names of dev clusters whose API server a test disturbs.
const FAULTS: &str = "faults";

/// The dev clusters of one run.
pub(crate) struct DevClusters {
    /// The folder of the shared dev cluster.
    pub(crate) shared: PathBuf,
    /// Locked until the run ends: a second run would end the dev clusters of the first.
    _lock: File,
}

impl DevClusters {
    /// Locks the folders, and removes what an earlier run left in them: its processes would keep running, and the checks of
    /// this run would read its logs.
    pub(crate) async fn prepare(shared: PathBuf) -> Result<Self> {
        let shared = workspace::dev_cluster_dir(Some(shared));
        let lock = lock(&shared)?;
        let clusters = Self { shared, _lock: lock };
        for dir in clusters.folders()? {
            dev_cluster::down(&dir).await?;
            std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(clusters)
    }

    /// The file of the durations of the end-to-end tests, which an earlier run may have left.
    pub(crate) fn test_times(&self) -> Result<PathBuf> {
        let file = self.shared.with_added_extension("times.jsonl");
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(file)
    }

    /// The existing folders.
    pub(crate) fn folders(&self) -> Result<Vec<PathBuf>> {
        let own = format!("{}{OWN}", name(&self.shared));
        let is_ours = |path: &PathBuf| path.is_dir() && (*path == self.shared || name(path).starts_with(&own));
        let entries = self.shared.parent().map(std::fs::read_dir).transpose()?.into_iter().flatten();
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours).collect())
    }

    /// Fails if a log has the message of a panic. A service that cannot continue exits with an error message instead.
    pub(crate) fn check_for_panics(&self) -> Result<()> {
        for dir in self.folders()? {
            let Ok(logs) = std::fs::read_dir(dir.join("log")) else { continue };
            for log in logs.filter_map(|entry| Some(entry.ok()?.path())) {
                let text = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
                let text = String::from_utf8_lossy(&text);
                if let Some(panic) = text.lines().find(|line| line.contains("panicked at")) {
                    bail!("{}: {panic}", log.display());
                }
            }
        }
        Ok(())
    }

    /// Ends the dev clusters that failed tests did not end.
    pub(crate) async fn end_own(&self) -> Result<()> {
        let mut outcome = Ok(());
        for dir in self.folders()?.iter().filter(|dir| **dir != self.shared && dir.join(PROCESSES).exists()) {
            outcome = dev_cluster::down(dir).await.and(outcome);
        }
        outcome
    }
}

/// Whether a test disturbs the API server of this dev cluster on purpose.
pub(crate) fn has_faults(dir: &Path) -> bool {
    name(dir).split_once(OWN).is_some_and(|(_, own)| own.starts_with(FAULTS))
}

fn lock(shared: &Path) -> Result<File> {
    let folder = shared.parent().context("the root folder cannot be the folder of a dev cluster")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = File::create(shared.with_file_name(format!(".{}.lock", name(shared))))?;
    if lock.try_lock().is_err() {
        bail!("another run uses the dev clusters in {}; give another --dir", shared.display());
    }
    Ok(lock)
}

fn name(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
