//! CPU time and memory of processes, as the kernel counts them.

use crate::proc;
use anyhow::{Context, Result};
use grove_dev_harness::process_memory;
use std::collections::BTreeMap;

/// The CPU time and memory of one process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessUsage {
    pub(super) cpu_seconds: f64,
    pub(super) peak_mb: f64,
}

/// The usage of processes by name, and of the whole machine under [`MACHINE`].
pub(super) type Usage = BTreeMap<String, ProcessUsage>;

pub(super) const MACHINE: &str = "machine";

/// Reads the usage of processes, given by name and pid.
pub(super) fn read(processes: &[(String, i32)]) -> Result<Usage> {
    let mut usage = Usage::new();
    for (name, pid) in processes {
        usage.insert(name.clone(), of(*pid).with_context(|| format!("cannot read the usage of {name}"))?);
    }
    usage.insert(MACHINE.to_owned(), ProcessUsage { cpu_seconds: proc::machine_cpu_seconds()?, peak_mb: 0.0 });
    Ok(usage)
}

/// Reads the usage of one process.
pub(super) fn of(pid: i32) -> Result<ProcessUsage> {
    let stat = proc::stat(pid).with_context(|| format!("no process has the pid {pid}"))?;
    Ok(ProcessUsage { cpu_seconds: stat.cpu_seconds, peak_mb: process_memory::of(pid)?.peak })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE, read};

    #[test]
    fn the_usage_of_this_process_and_the_machine_is_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let usage = read(&[("own".to_owned(), own)]).unwrap();
        assert!(usage["own"].peak_mb > 0.0 && usage[MACHINE].cpu_seconds > 0.0);
    }
}
