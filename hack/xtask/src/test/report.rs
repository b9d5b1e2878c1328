//! The table at the end of a run: the duration of each part, the slowest end-to-end tests, CPU time by kind of process, and the failures:
//! those of tests that ran at the same time are far apart in the output.

use super::resource_usage::ResourceUsage;
use crate::workspace;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Folder of the tables of earlier runs.
const FOLDER: &str = "target/test-reports";
/// The number of tables in it.
const TABLES: usize = 10;
/// The number of slow tests and of kinds of processes in the table.
const ROWS: usize = 10;

/// The durations of one end-to-end test in seconds, and why it failed. The end-to-end tests write one line for each.
#[derive(Deserialize)]
struct TestTime {
    test: String,
    seconds: f64,
    clusters: f64,
    queue: f64,
    failure: Option<String>,
}

/// Measures the parts of a run.
pub(super) struct Report {
    started: Instant,
    parts: RefCell<Vec<(&'static str, Duration)>>,
    /// The file to which the end-to-end tests append their durations.
    pub(super) test_times: PathBuf,
}

impl Report {
    /// Starts the clock. `test_times` must not exist yet.
    pub(super) fn start(test_times: PathBuf) -> Self {
        Self { started: Instant::now(), parts: RefCell::default(), test_times }
    }

    /// Measures one part. Parts may overlap.
    pub(super) async fn part<T>(&self, name: &'static str, part: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = part.await;
        self.parts.borrow_mut().push((name, began.elapsed()));
        result
    }

    /// Prints the table, and stores it for comparison with later runs. `what` names the command.
    pub(super) fn publish(&self, usage: &ResourceUsage, what: &str) -> Result<()> {
        let folder = workspace::root().join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let earlier = reports(&folder)?;
        let total = self.started.elapsed().as_secs();
        let table = self.table(usage, &format!("{what}: {total} s in total"))?;
        println!("\n{table}");
        for report in earlier.iter().rev().take(3) {
            let text = fs::read_to_string(report)?;
            println!("earlier run: {}", text.lines().next().unwrap_or_default());
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let file = folder.join(format!("{since_epoch}.txt"));
        fs::write(&file, table).with_context(|| format!("cannot write {}", file.display()))?;
        println!("this table is in {}", file.display());
        let surplus = (earlier.len() + 1).saturating_sub(TABLES);
        earlier.iter().take(surplus).try_for_each(|report| Ok(fs::remove_file(report)?))
    }

    fn table(&self, usage: &ResourceUsage, title: &str) -> Result<String> {
        let times = self.read_test_times()?;
        let mut text = format!("{title}\n\n");
        for (name, duration) in self.parts.borrow().iter() {
            writeln!(text, "{:>8.1} s  {name}", duration.as_secs_f64())?;
        }
        let sum = |of: fn(&TestTime) -> f64| times.iter().map(of).sum::<f64>();
        writeln!(
            text,
            "\n{} end-to-end tests ran for {:.0} s, {:.0} s of them for the start and the end of clusters, and {:.0} s in the queue for \
             clusters\nthe slowest ones, without the queue:",
            times.len(),
            sum(|time| time.seconds),
            sum(|time| time.clusters),
            sum(|time| time.queue)
        )?;
        for TestTime { test, seconds, clusters, queue, .. } in times.iter().take(ROWS) {
            writeln!(text, "{:>8.1} s  {test} ({clusters:.1} s for clusters)", seconds - queue)?;
        }
        writeln!(text, "\nCPU time by kind of process")?;
        for (kind, seconds) in usage.cpu_seconds()?.into_iter().take(ROWS) {
            writeln!(text, "{seconds:>8.1} s  {kind}")?;
        }
        writeln!(text, "peak memory {:.1} GB", usage.peak_memory_gb())?;
        for TestTime { test, failure, .. } in &times {
            if let Some(failure) = failure {
                writeln!(text, "\n{test} failed: {failure}")?;
            }
        }
        Ok(text)
    }

    /// The durations of the end-to-end tests, the slowest first.
    fn read_test_times(&self) -> Result<Vec<TestTime>> {
        let text = if self.test_times.exists() { fs::read_to_string(&self.test_times)? } else { String::new() };
        let mut times: Vec<TestTime> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        times.sort_by(|one, other| (other.seconds - other.queue).total_cmp(&(one.seconds - one.queue)));
        Ok(times)
    }
}

/// The stored tables, the oldest first.
fn reports(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut reports: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    reports.sort();
    Ok(reports)
}
