//! Measures one phase: times by the watches, writes by the audit log, CPU time and memory by the kernel.

use super::Round;
use super::object_counts::ObjectCounts;
use super::samples::{Curve, SampleKey, Samples};
use super::usage::{self, MACHINE, Usage};
use super::writes::{Write, WriteLog, Writes};
use crate::dev_cluster::DevCluster;
use anyhow::Result;
use std::time::{Duration, Instant, SystemTime};

/// A phase ends when no write was logged for this long. Delayed status writes follow each other faster.
const QUIET_PERIOD: Duration = Duration::from_secs(3);
/// The name of this process in the figures.
const CLIENT: &str = "client";

/// Measures from [`PhaseMeter::start`] to [`PhaseMeter::finish`].
pub(super) struct PhaseMeter {
    key: SampleKey,
    processes: Vec<(String, i32)>,
    log: WriteLog,
    before: Usage,
    started: Instant,
    /// The same moment on the clock of the audit log.
    started_at: SystemTime,
    /// When the benchmark saw the last pod become Ready.
    pods_ready: Option<Instant>,
}

impl PhaseMeter {
    /// Call this while no object changes, immediately before the phase.
    pub(super) fn start(cluster: &DevCluster, counts: &ObjectCounts, key: SampleKey) -> Result<Self> {
        let mut processes = cluster.processes.running();
        processes.push((CLIENT.to_owned(), i32::try_from(std::process::id())?));
        let log = WriteLog::start(&cluster.dir)?;
        let before = usage::read(&processes)?;
        counts.take_timeline();
        let (started, started_at) = (Instant::now(), SystemTime::now());
        Ok(Self { key, processes, log, before, started, started_at, pods_ready: None })
    }

    /// Records when a state was reached.
    pub(super) fn reached(&self, samples: &mut Samples, state: &str, at: Instant) {
        let seconds = at.saturating_duration_since(self.started).as_secs_f64();
        println!("  {} {state} {seconds:.2} s", self.key.phase.name());
        self.add(samples, format!("{state} s"), seconds);
    }

    /// Records when the last pod became Ready. Status delays count from this time.
    pub(super) fn pods_ready(&mut self, samples: &mut Samples, at: Instant) {
        self.pods_ready = Some(at);
        self.reached(samples, "ready", at);
    }

    /// Records when a status was current, and its delay after the last pod became Ready.
    pub(super) fn status_current(&self, samples: &mut Samples, status: &str, at: Instant) {
        self.reached(samples, status, at);
        if let Some(ready) = self.pods_ready {
            let delay = at.saturating_duration_since(ready).as_secs_f64();
            self.add(samples, format!("{status} after last Ready pod s"), delay);
        }
    }

    /// Waits until no more writes follow, and records writes, CPU time and memory.
    pub(super) async fn finish(mut self, counts: &ObjectCounts, samples: &mut Samples) -> Result<()> {
        self.log.wait_until_quiet(QUIET_PERIOD).await?;
        self.add_usage(samples, &usage::read(&self.processes)?);
        let SampleKey { round: Round { replicas, repetition }, variant, phase } = self.key;
        let since = |at: Instant| at.saturating_duration_since(self.started).as_secs_f64();
        let points = counts.take_timeline().into_iter().map(|(at, counts)| (since(at), counts)).collect();
        samples.curves.push(Curve { replicas, repetition, variant, phase, points });
        let writes = self.log.writes();
        self.add_writes(samples, writes);
        self.add_status_writes(samples, writes);
        Ok(())
    }

    fn add_usage(&self, samples: &mut Samples, after: &Usage) {
        let mut measured = 0.0;
        for (name, used) in after.iter().filter(|(name, _)| *name != MACHINE) {
            let before = self.before.get(name).copied().unwrap_or_default();
            let cpu = used.cpu_seconds - before.cpu_seconds;
            measured += cpu;
            self.add(samples, format!("cpu {name} s"), cpu);
            self.add(samples, format!("peak memory {name} MB"), used.peak_mb);
        }
        let machine = |usage: &Usage| usage.get(MACHINE).map_or(0.0, |used| used.cpu_seconds);
        // This includes processes that ended during the phase.
        self.add(samples, "cpu of others s".to_owned(), (machine(after) - machine(&self.before) - measured).max(0.0));
    }

    fn add_writes(&self, samples: &mut Samples, writes: &Writes) {
        for (Write { account, verb, resource, accepted }, count) in &writes.counts {
            let outcome = if *accepted { "accepted" } else { "rejected" };
            self.add(samples, format!("{outcome} {account} {verb} {resource}"), f64::from(*count));
        }
    }

    /// Status writes that the API server received after the last pod became Ready: their number, and the delay of the last.
    fn add_status_writes(&self, samples: &mut Samples, writes: &Writes) {
        let Some(ready) = self.pods_ready else { return };
        let ready_at = self.started_at + ready.saturating_duration_since(self.started);
        let delays = writes.status_writes.iter().filter_map(|received| received.duration_since(ready_at).ok());
        let (count, last) = delays.fold((0_u32, Duration::ZERO), |(count, last), delay| (count + 1, last.max(delay)));
        self.add(samples, "status writes after last Ready pod".to_owned(), f64::from(count));
        self.add(samples, "last status write after last Ready pod s".to_owned(), last.as_secs_f64());
    }

    fn add(&self, samples: &mut Samples, figure: String, value: f64) {
        samples.add(self.key, figure, value);
    }
}
