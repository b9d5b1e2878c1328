//! The processes of one plane: started in a group of their own so that they outlive this one, remembered with their
//! start time so that nobody else's process is ever ended, reported with their last words when they die.

use crate::workspace;
use anyhow::{Context, Error, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(30);

/// What to run.
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Files whose change calls for a restart, beside the program itself.
    pub(crate) inputs: Vec<PathBuf>,
}

/// What became of a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ensured {
    WasRunning,
    /// It ran, but not what was asked for.
    Restarted,
    Started,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    pid: i32,
    /// In clock ticks since boot: with the pid it names one process for ever.
    started: u64,
    /// Of the program, its arguments and inputs.
    fingerprint: String,
}

impl Entry {
    fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

pub(crate) struct Processes {
    file: PathBuf,
    logs: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Processes {
    pub(crate) fn of(dir: &Path) -> Result<Self> {
        let file = dir.join("pids.json");
        let entries = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Self { file, logs: dir.join("log"), entries })
    }

    pub(crate) fn is_alive(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(Entry::is_alive)
    }

    /// Whether the list still names this very process under `name`.
    pub(crate) fn is_entered(&self, name: &str, pid: u32) -> bool {
        self.entries.get(name).is_some_and(|entry| i64::from(entry.pid) == i64::from(pid))
    }

    /// The names and pids of what runs.
    pub(crate) fn running(&self) -> Vec<(String, i32)> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.is_alive())
            .map(|(name, entry)| (name.clone(), entry.pid))
            .collect()
    }

    pub(crate) fn alive(&self) -> Vec<String> {
        self.entries.iter().filter(|(_, entry)| entry.is_alive()).map(|(name, _)| name.clone()).collect()
    }

    /// Leaves a running process alone unless its program or inputs changed; starts it otherwise.
    pub(crate) async fn ensure(&mut self, launch: &Launch) -> Result<Ensured> {
        let fingerprint = fingerprint(launch)?;
        let mut ensured = Ensured::Started;
        if let Some(entry) = self.entries.get(&launch.name)
            && entry.is_alive()
        {
            if entry.fingerprint == fingerprint {
                return Ok(Ensured::WasRunning);
            }
            ensured = Ensured::Restarted;
            self.end(std::slice::from_ref(&launch.name)).await?;
        }
        let pid = self.spawn(launch)?;
        let started = start_time(pid).ok_or_else(|| self.obituary(&launch.name))?;
        self.entries.insert(launch.name.clone(), Entry { pid, started, fingerprint });
        self.save()?;
        Ok(ensured)
    }

    fn spawn(&self, launch: &Launch) -> Result<i32> {
        std::fs::create_dir_all(&self.logs)?;
        let log = File::options().create(true).append(true).open(self.log(&launch.name))?;
        let child = Command::new(&launch.program)
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        Ok(i32::try_from(child.id())?)
    }

    /// Ends these, all at the same time; what does not go within the grace period is killed.
    pub(crate) async fn end(&mut self, names: &[String]) -> Result<()> {
        let entries: Vec<Entry> = names.iter().filter_map(|name| self.entries.get(name)).cloned().collect();
        tell(&entries, Signal::TERM);
        if !all_gone(&entries, GRACE).await {
            tell(&entries, Signal::KILL);
            all_gone(&entries, GRACE).await;
        }
        self.entries.retain(|name, _| !names.contains(name));
        self.save()
    }

    /// Completes when one of the plane's processes dies, with its last lines.
    pub(crate) async fn death(&self) -> Error {
        loop {
            if let Some(death) = self.found_dead() {
                return death;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// A process that should run and does not, with its last lines.
    pub(crate) fn found_dead(&self) -> Option<Error> {
        self.entries.iter().find(|(_, entry)| !entry.is_alive()).map(|(name, _)| self.obituary(name))
    }

    /// Takes what died earlier off the list, and returns its names.
    pub(crate) fn bury(&mut self) -> Result<Vec<String>> {
        let dead: Vec<String> =
            self.entries.iter().filter(|(_, entry)| !entry.is_alive()).map(|(name, _)| name.clone()).collect();
        self.entries.retain(|name, _| !dead.contains(name));
        self.save()?;
        Ok(dead)
    }

    fn obituary(&self, name: &str) -> Error {
        anyhow!("{name} died; the end of {}:\n{}", self.log(name).display(), self.last_lines(name, 20))
    }

    /// The end of a process' log, indented.
    pub(crate) fn last_lines(&self, name: &str, count: usize) -> String {
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

fn tell(entries: &[Entry], signal: Signal) {
    for entry in entries.iter().filter(|entry| entry.is_alive()) {
        if let Some(pid) = Pid::from_raw(entry.pid) {
            // It may have ended by itself a moment ago, which is just as well.
            _ = kill_process(pid, signal);
        }
    }
}

async fn all_gone(entries: &[Entry], limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while entries.iter().any(Entry::is_alive) {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}

/// When the process started, in clock ticks since boot; None if there is no such process or only its zombie.
fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may itself contain blanks: count the fields behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18))?.and_then(|field| field.parse().ok())
}

fn fingerprint(launch: &Launch) -> Result<String> {
    let mut hash = Sha256::new();
    let program =
        std::fs::metadata(&launch.program).with_context(|| format!("{} is not there", launch.program.display()))?;
    hash.update(format!("{} {} {}", launch.program.display(), program.len(), program.mtime_nsec()));
    hash.update(program.mtime().to_le_bytes());
    for argument in &launch.arguments {
        hash.update(argument);
        hash.update([0]);
    }
    for input in &launch.inputs {
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
    use super::{Ensured, Launch, Processes};
    use std::path::PathBuf;

    fn launch(name: &str, script: &str) -> Launch {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        Launch { name: name.to_owned(), program: PathBuf::from("/bin/sh"), arguments, inputs: Vec::new() }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("grove-processes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_running_process_is_left_alone_and_a_changed_one_restarted() {
        let dir = folder("changed");
        let mut processes = Processes::of(&dir).unwrap();
        assert!(processes.ensure(&launch("a", "exec sleep 100")).await.unwrap() == Ensured::Started);
        let mut again = Processes::of(&dir).unwrap();
        assert!(again.ensure(&launch("a", "exec sleep 100")).await.unwrap() == Ensured::WasRunning);
        assert!(again.ensure(&launch("a", "exec sleep 200")).await.unwrap() == Ensured::Restarted);
        assert_eq!(processes.alive(), Vec::<String>::new(), "the first one has ended");
        again.end(&["a".to_owned()]).await.unwrap();
        assert!(!again.is_alive("a"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn a_death_is_told_with_the_last_lines() {
        let dir = folder("death");
        let mut processes = Processes::of(&dir).unwrap();
        let told = dir.join("told");
        let script = "for i in $(seq 1 30); do echo line $i; done; while [ ! -e TOLD ]; do sleep 0.02; done; exit 1";
        processes.ensure(&launch("b", &script.replace("TOLD", &told.display().to_string()))).await.unwrap();
        std::fs::write(told, "").unwrap();
        let told = processes.death().await.to_string();
        assert!(told.starts_with("b died"), "{told}");
        assert!(told.contains("line 11\n") && told.contains("line 30\n") && !told.contains("line 10\n"), "{told}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn somebody_elses_process_is_not_ours() {
        let dir = folder("foreign");
        let foreign = format!("{{\"c\": {{\"pid\": {}, \"started\": 1, \"fingerprint\": \"\"}}}}", std::process::id());
        std::fs::write(dir.join("pids.json"), foreign).unwrap();
        assert!(!Processes::of(&dir).unwrap().is_alive("c"), "the pid is in use again, by another process");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
