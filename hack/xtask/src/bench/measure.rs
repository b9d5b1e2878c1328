//! One phase under the meter: times by the watches, writes by the audit log, processor time and memory by the kernel.

use super::Round;
use super::requests::{AuditLog, Write, Writes};
use super::samples::{Curve, Place, Samples};
use super::tally::Tally;
use super::usage::{self, MACHINE, Usage};
use crate::plane::Plane;
use anyhow::Result;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A phase has ended when nothing was written for this long.
const CALM: Duration = Duration::from_secs(1);
/// The name under which this process itself appears.
const CLIENT: &str = "client";

/// Measures from its begin to [`Meter::end`].
pub(super) struct Meter {
    place: Place,
    processes: Vec<(String, i32)>,
    log: AuditLog,
    before: Usage,
    began: Instant,
}

impl Meter {
    /// To be called when nothing happens, immediately before the phase.
    pub(super) fn begin(running: &Plane, tally: &Tally, place: Place) -> Result<Self> {
        let mut processes = running.processes.running();
        processes.push((CLIENT.to_owned(), i32::try_from(std::process::id())?));
        let log = AuditLog::from_here(&running.dir.join("audit.log"))?;
        let before = usage::read(&processes)?;
        tally.take_timeline();
        Ok(Self { place, processes, log, before, began: Instant::now() })
    }

    /// Notes that something was reached.
    pub(super) fn reached(&self, samples: &mut Samples, what: &str, at: Instant) {
        let seconds = at.saturating_duration_since(self.began).as_secs_f64();
        println!("  {} {what} {seconds:.2} s", self.place.phase.name());
        self.note(samples, format!("{what} s"), seconds);
    }

    /// Waits until it is calm, and notes what the phase took.
    pub(super) async fn end(mut self, tally: &Tally, samples: &mut Samples) -> Result<()> {
        let mut writes = self.log.new_writes()?;
        loop {
            sleep(CALM).await;
            let more = self.log.new_writes()?;
            if more.is_empty() {
                break;
            }
            for (write, count) in more {
                *writes.entry(write).or_default() += count;
            }
        }
        self.note_usage(samples, &usage::read(&self.processes)?);
        self.note_writes(samples, &writes);
        let Place { round: Round { replicas, repetition }, who, phase } = self.place;
        let since = |at: Instant| at.saturating_duration_since(self.began).as_secs_f64();
        let points = tally.take_timeline().into_iter().map(|(at, counts)| (since(at), counts)).collect();
        samples.curves.push(Curve { replicas, repetition, who, phase, points });
        Ok(())
    }

    fn note_usage(&self, samples: &mut Samples, after: &Usage) {
        let mut ours = 0.0;
        for (name, used) in after {
            let before = self.before.get(name).copied().unwrap_or_default();
            let cpu = used.cpu_seconds - before.cpu_seconds;
            if name == MACHINE {
                continue;
            }
            ours += cpu;
            self.note(samples, format!("cpu {name} s"), cpu);
            self.note(samples, format!("peak memory {name} MB"), used.peak_mb);
        }
        let of_all = |usage: &Usage| usage.get(MACHINE).map_or(0.0, |used| used.cpu_seconds);
        // What else the machine did meanwhile; processes that ended in the phase count here, too.
        self.note(samples, "cpu of others s".to_owned(), (of_all(after) - of_all(&self.before) - ours).max(0.0));
    }

    fn note_writes(&self, samples: &mut Samples, writes: &Writes) {
        for (Write { account, verb, resource, accepted }, count) in writes {
            let outcome = if *accepted { "writes" } else { "refused" };
            self.note(samples, format!("{outcome} {account} {verb} {resource}"), f64::from(*count));
        }
    }

    fn note(&self, samples: &mut Samples, figure: String, value: f64) {
        samples.add(self.place, figure, value);
    }
}
