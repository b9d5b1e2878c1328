//! The processes of one dev cluster. They run in process groups of their own, so they outlive this process. DIR/pids.json
//! stores each pid with the start time of the process, so a reused pid is never signalled.

use crate::{proc, workspace};
use anyhow::{Context, Error, Result, anyhow};
use grove_dev_harness::state_file::{self, PROCESSES, ProcessEntry};
use grove_dev_harness::wait;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::timeout;

/// A process that has not ended after this time is killed.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// A process to run.
pub(crate) struct ProcessSpec {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Variables beside those of this process.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// Input files. If one of them or the program changes, the process is restarted.
    pub(crate) inputs: Vec<PathBuf>,
    /// Whether it ends by SIGKILL instead of SIGTERM.
    pub(crate) is_killed: bool,
}

impl ProcessSpec {
    /// A process without variables and inputs, which ends by SIGTERM.
    pub(crate) fn new(name: impl Into<String>, program: PathBuf, arguments: Vec<String>) -> Self {
        Self { name: name.into(), program, arguments, environment: Vec::new(), inputs: Vec::new(), is_killed: false }
    }
}

/// The outcome of [`Processes::ensure`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnsureOutcome {
    AlreadyRunning,
    /// The process ran with another program, other arguments or other inputs.
    Restarted,
    Started,
}

pub(crate) struct Processes {
    file: PathBuf,
    logs: PathBuf,
    entries: BTreeMap<String, ProcessEntry>,
}

impl Processes {
    /// Reads DIR/pids.json.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        let file = dir.join(PROCESSES);
        Ok(Self { entries: state_file::read(&file)?, file, logs: dir.join("log") })
    }

    pub(crate) fn is_alive(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(is_alive)
    }

    /// Whether `name` is registered with this pid.
    pub(crate) fn is_registered(&self, name: &str, pid: u32) -> bool {
        self.entries.get(name).is_some_and(|entry| i64::from(entry.pid) == i64::from(pid))
    }

    /// The names and pids of the running processes.
    pub(crate) fn running(&self) -> Vec<(String, i32)> {
        self.entries
            .iter()
            .filter(|(_, entry)| is_alive(entry))
            .map(|(name, entry)| (name.clone(), entry.pid))
            .collect()
    }

    /// The names of the running processes.
    pub(crate) fn alive(&self) -> Vec<String> {
        self.running().into_iter().map(|(name, _)| name).collect()
    }

    /// Starts the process unless it already runs with the same program, arguments and inputs.
    pub(crate) async fn ensure(&mut self, spec: &ProcessSpec) -> Result<EnsureOutcome> {
        let fingerprint = fingerprint(spec)?;
        let mut outcome = EnsureOutcome::Started;
        if let Some(entry) = self.entries.get(&spec.name)
            && is_alive(entry)
        {
            if entry.fingerprint == fingerprint {
                return Ok(EnsureOutcome::AlreadyRunning);
            }
            outcome = EnsureOutcome::Restarted;
            self.end(std::slice::from_ref(&spec.name)).await?;
        }
        let pid = self.spawn(spec)?;
        let stat = proc::stat(pid).filter(|stat| !stat.is_zombie).ok_or_else(|| self.exit_report(&spec.name))?;
        let entry = ProcessEntry { pid, started: stat.start_time, fingerprint, is_killed: spec.is_killed };
        self.entries.insert(spec.name.clone(), entry);
        self.save()?;
        Ok(outcome)
    }

    fn spawn(&self, spec: &ProcessSpec) -> Result<i32> {
        std::fs::create_dir_all(&self.logs)?;
        let log = File::options().create(true).append(true).open(self.log(&spec.name))?;
        let child = Command::new(&spec.program)
            .args(&spec.arguments)
            .envs(spec.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", spec.program.display()))?;
        Ok(i32::try_from(child.id())?)
    }

    /// Ends these processes at the same time, with SIGTERM and after the grace period with SIGKILL.
    pub(crate) async fn end(&mut self, names: &[String]) -> Result<()> {
        let mut entries = Vec::new();
        for (_, entry) in self.entries.iter().filter(|(name, _)| names.contains(name)) {
            let signal = if entry.is_killed { Signal::KILL } else { Signal::TERM };
            signal_all(std::slice::from_ref(entry), signal);
            entries.push(entry.clone());
        }
        if !have_exited(&entries, GRACE_PERIOD).await {
            signal_all(&entries, Signal::KILL);
            have_exited(&entries, GRACE_PERIOD).await;
        }
        self.entries.retain(|name, _| !names.contains(name));
        self.save()
    }

    /// Ends a process with SIGKILL, as a crash does.
    pub(crate) async fn kill(&mut self, name: &str) -> Result<()> {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_killed = true;
        }
        self.end(&[name.to_owned()]).await
    }

    /// Completes when a registered process is dead; the error has its last log lines.
    pub(crate) async fn wait_for_death(&self) -> Error {
        wait::poll(Duration::from_millis(200), async || self.find_dead()).await
    }

    /// A registered process that is dead, as an error with its last log lines.
    pub(crate) fn find_dead(&self) -> Option<Error> {
        self.entries.iter().find(|(_, entry)| !is_alive(entry)).map(|(name, _)| self.exit_report(name))
    }

    /// Unregisters the dead processes and returns their names.
    pub(crate) fn remove_dead(&mut self) -> Result<Vec<String>> {
        let dead: Vec<String> =
            self.entries.iter().filter(|(_, entry)| !is_alive(entry)).map(|(name, _)| name.clone()).collect();
        self.entries.retain(|name, _| !dead.contains(name));
        self.save()?;
        Ok(dead)
    }

    fn exit_report(&self, name: &str) -> Error {
        anyhow!("{name} died; the end of {}:\n{}", self.log(name).display(), self.log_tail(name, 20))
    }

    /// The last lines of the log of a process, indented.
    pub(crate) fn log_tail(&self, name: &str, count: usize) -> String {
        let text = tail(&self.log(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].iter().flat_map(|line| ["    ", line, "\n"]).collect()
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    fn save(&self) -> Result<()> {
        workspace::write_private(&self.file, &format!("{}\n", serde_json::to_string_pretty(&self.entries)?))
    }
}

fn is_alive(entry: &ProcessEntry) -> bool {
    proc::stat(entry.pid).is_some_and(|stat| !stat.is_zombie && stat.start_time == entry.started)
}

fn signal_all(entries: &[ProcessEntry], signal: Signal) {
    for entry in entries.iter().filter(|entry| is_alive(entry)) {
        if let Some(pid) = Pid::from_raw(entry.pid) {
            // An error means that the process has ended in the meantime.
            _ = kill_process(pid, signal);
        }
    }
}

/// Waits until all processes have exited; false after the timeout.
async fn have_exited(entries: &[ProcessEntry], limit: Duration) -> bool {
    let all_dead = async || (!entries.iter().any(is_alive)).then_some(());
    timeout(limit, wait::poll(Duration::from_millis(20), all_dead)).await.is_ok()
}

fn fingerprint(spec: &ProcessSpec) -> Result<String> {
    let mut hash = Sha256::new();
    let program =
        std::fs::metadata(&spec.program).with_context(|| format!("{} does not exist", spec.program.display()))?;
    hash.update(format!("{} {} {}", spec.program.display(), program.len(), program.mtime_nsec()));
    hash.update(program.mtime().to_le_bytes());
    for argument in &spec.arguments {
        hash.update(argument);
        hash.update([0]);
    }
    for (name, value) in &spec.environment {
        hash.update(format!("{name}={value} "));
    }
    for input in &spec.inputs {
        hash.update(std::fs::read(input).with_context(|| format!("cannot read {}", input.display()))?);
    }
    Ok(workspace::hex(&hash.finalize()[..8]))
}

/// The last 16 KiB of a file as text.
fn tail(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{EnsureOutcome, ProcessSpec, Processes};
    use std::path::PathBuf;

    fn shell(name: &str, script: &str) -> ProcessSpec {
        ProcessSpec::new(name, PathBuf::from("/bin/sh"), vec!["-c".to_owned(), script.to_owned()])
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("grove-processes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_running_process_is_restarted_only_if_its_spec_changed() {
        let dir = folder("changed");
        let mut processes = Processes::load(&dir).unwrap();
        assert!(processes.ensure(&shell("a", "exec sleep 100")).await.unwrap() == EnsureOutcome::Started);
        let mut again = Processes::load(&dir).unwrap();
        assert!(again.ensure(&shell("a", "exec sleep 100")).await.unwrap() == EnsureOutcome::AlreadyRunning);
        assert!(again.ensure(&shell("a", "exec sleep 200")).await.unwrap() == EnsureOutcome::Restarted);
        assert_eq!(processes.alive(), Vec::<String>::new(), "the first process has ended");
        again.end(&["a".to_owned()]).await.unwrap();
        assert!(!again.is_alive("a"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn a_dead_process_is_reported_with_its_last_log_lines() {
        let dir = folder("death");
        let mut processes = Processes::load(&dir).unwrap();
        let release = dir.join("release");
        let script = "for i in $(seq 1 30); do echo line $i; done; while [ ! -e RELEASE ]; do sleep 0.02; done; exit 1";
        processes.ensure(&shell("b", &script.replace("RELEASE", &release.display().to_string()))).await.unwrap();
        std::fs::write(release, "").unwrap();
        let report = processes.wait_for_death().await.to_string();
        assert!(report.starts_with("b died"), "{report}");
        assert!(report.contains("line 11\n") && report.contains("line 30\n"), "{report}");
        assert!(!report.contains("line 10\n"), "{report}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_process_with_a_reused_pid_is_not_registered_as_alive() {
        let dir = folder("foreign");
        let foreign = format!("{{\"c\": {{\"pid\": {}, \"started\": 1, \"fingerprint\": \"\"}}}}", std::process::id());
        std::fs::write(dir.join("pids.json"), foreign).unwrap();
        assert!(!Processes::load(&dir).unwrap().is_alive("c"), "another process has the pid");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
