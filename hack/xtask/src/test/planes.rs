//! The folders of the planes that tests run on: the one that they share, and beside it those of tests that disturb others.

use crate::{plane, workspace};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Between the name of the shared plane's folder and the name that a test gives to a plane of its own.
const OWN: &str = ".own.";
/// How the names of planes begin on which the API server is disturbed.
const FAULTS: &str = "faults";

/// All planes of one run.
pub(crate) struct Planes {
    pub(crate) shared: PathBuf,
    /// Held for as long as the run takes: a second run would end the planes of the first.
    _lock: File,
}

impl Planes {
    /// Takes the folder, and clears away what an earlier run left: that would run on, and its logs would count as this
    /// run's.
    pub(crate) async fn take(shared: PathBuf) -> Result<Self> {
        let shared = workspace::plane_dir(Some(shared));
        let lock = lock(&shared)?;
        let planes = Self { shared, _lock: lock };
        for dir in planes.all()? {
            plane::down(&dir).await?;
            std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(planes)
    }

    /// The folders that there are.
    pub(crate) fn all(&self) -> Result<Vec<PathBuf>> {
        let own = format!("{}{OWN}", name(&self.shared));
        let is_plane = |path: &PathBuf| path.is_dir() && (*path == self.shared || name(path).starts_with(&own));
        let beside = self.shared.parent().map(std::fs::read_dir).transpose()?.into_iter().flatten();
        Ok(beside.filter_map(|entry| Some(entry.ok()?.path())).filter(is_plane).collect())
    }

    /// Whatever happens to a service, it ends with a message and an exit code: no log tells of a panic.
    pub(crate) fn nothing_panicked(&self) -> Result<()> {
        for dir in self.all()? {
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

    /// A test that failed has not ended the plane of its own.
    pub(crate) async fn end_own(&self) -> Result<()> {
        let mut ended = Ok(());
        for dir in self.all()?.iter().filter(|dir| **dir != self.shared && dir.join("pids.json").exists()) {
            ended = plane::down(dir).await.and(ended);
        }
        ended
    }
}

/// Whether the plane's API server is disturbed on purpose.
pub(crate) fn has_faults(dir: &Path) -> bool {
    name(dir).split_once(OWN).is_some_and(|(_, own)| own.starts_with(FAULTS))
}

fn lock(shared: &Path) -> Result<File> {
    let folder = shared.parent().context("the root is no folder for a plane")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(shared.with_file_name(format!(".{}.lock", name(shared))))?;
    if lock.try_lock().is_err() {
        bail!("another run has its planes in {}; give this one a --dir of its own", shared.display());
    }
    Ok(lock)
}

fn name(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
