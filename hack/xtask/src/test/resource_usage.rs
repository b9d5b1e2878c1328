//! The CPU time of a run by kind of process, and its peak memory.

use crate::proc;
use anyhow::Result;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::sleep;

/// Between two samples. What a process uses after its last sample counts for [`OTHERS`].
const INTERVAL: Duration = Duration::from_secs(1);
/// Processes that ended before their first sample, and what no sample shows of the others.
const OTHERS: &str = "others";
/// The number of hexadecimal digits that Cargo appends to the name of a test binary.
const HASH: usize = 16;

/// One process: its kind, and its CPU time in seconds at the start of the run and in the last sample.
struct Sample {
    kind: String,
    before: f64,
    last: f64,
}

/// Samples all processes of the machine.
pub(super) struct ResourceUsage {
    machine_before: f64,
    memory_before: f64,
    peak_memory: f64,
    /// By pid and start time, because the kernel reuses pids.
    processes: BTreeMap<(i32, u64), Sample>,
}

impl ResourceUsage {
    pub(super) fn start() -> Result<Self> {
        let mut usage = Self {
            machine_before: proc::machine_cpu_seconds()?,
            memory_before: proc::used_memory_gb()?,
            peak_memory: 0.0,
            processes: BTreeMap::new(),
        };
        usage.sample()?;
        for process in usage.processes.values_mut() {
            process.before = process.last;
        }
        Ok(usage)
    }

    /// Samples until the future is dropped.
    pub(super) async fn sample_forever(&mut self) -> Result<Infallible> {
        loop {
            self.sample()?;
            sleep(INTERVAL).await;
        }
    }

    fn sample(&mut self) -> Result<()> {
        for (pid, stat) in proc::pids()?.into_iter().filter_map(|pid| Some((pid, proc::stat(pid)?))) {
            let key = (pid, stat.start_time);
            if let Some(process) = self.processes.get_mut(&key) {
                process.last = stat.cpu_seconds;
            } else if let Some(program) = proc::program(pid) {
                let kind = kind_of(&program).to_owned();
                self.processes.insert(key, Sample { kind, before: 0.0, last: stat.cpu_seconds });
            }
        }
        self.peak_memory = self.peak_memory.max(proc::used_memory_gb()? - self.memory_before);
        Ok(())
    }

    /// The CPU seconds by kind of process, most first.
    pub(super) fn cpu_seconds(&self) -> Result<Vec<(String, f64)>> {
        let mut by_kind = BTreeMap::<String, f64>::new();
        for process in self.processes.values() {
            *by_kind.entry(process.kind.clone()).or_default() += process.last - process.before;
        }
        let machine = proc::machine_cpu_seconds()? - self.machine_before;
        let sampled: f64 = by_kind.values().sum();
        by_kind.insert(OTHERS.to_owned(), (machine - sampled).max(0.0));
        let mut sorted: Vec<_> = by_kind.into_iter().collect();
        sorted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        Ok(sorted)
    }

    /// The highest memory of all processes beyond that at the start, in GB.
    pub(super) fn peak_memory_gb(&self) -> f64 {
        self.peak_memory
    }
}

/// The program without the hash that Cargo appends to test binaries.
fn kind_of(program: &str) -> &str {
    match program.rsplit_once('-') {
        Some((name, hash)) if hash.len() == HASH && hash.bytes().all(|digit| digit.is_ascii_hexdigit()) => name,
        _ => program,
    }
}

#[cfg(test)]
mod tests {
    use super::{OTHERS, ResourceUsage, kind_of};

    #[test]
    fn test_binaries_are_named_without_their_hash() {
        assert_eq!(kind_of("e2e-0123456789abcdef"), "e2e");
        assert_eq!(kind_of("kube-apiserver"), "kube-apiserver");
    }

    #[test]
    fn the_cpu_time_of_this_process_is_counted_from_the_start() {
        let mut usage = ResourceUsage::start().unwrap();
        usage.sample().unwrap();
        let kinds = usage.cpu_seconds().unwrap();
        assert!(kinds.iter().any(|(kind, _)| kind == OTHERS));
        let (_, own) = kinds.iter().find(|(kind, _)| kind == "xtask").unwrap();
        assert!((0.0..60.0).contains(own), "{own}");
        assert!(usage.peak_memory_gb() < 1.0);
    }
}
