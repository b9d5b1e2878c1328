//! Figures of Linux about processes and the machine, from `/proc` and `sysinfo(2)`.

use anyhow::{Context, Result};
use std::fs;

/// One process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stat {
    /// In clock ticks since boot. Together with the pid it identifies a process: the kernel reuses pids.
    pub(crate) start_time: u64,
    /// User and system time of all threads.
    pub(crate) cpu_seconds: f64,
    /// Whether the process has exited and its parent has not reaped it.
    pub(crate) is_zombie: bool,
}

/// Memory of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) resident_mb: f64,
    /// The highest resident memory since the process started.
    pub(crate) peak_mb: f64,
}

/// Reads `/proc/PID/stat`; `None` if there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads the memory of a process from `/proc/PID/status`.
pub(crate) fn memory(pid: i32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(Memory { resident_mb: megabytes(&text, "VmRSS:"), peak_mb: megabytes(&text, "VmHWM:") })
}

/// The time since boot in which the processors of the machine were not idle, summed over all processors.
pub(crate) fn machine_cpu_seconds() -> Result<f64> {
    Ok(parse_busy(&fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?))
}

/// The number of runnable processes, averaged over one minute.
pub(crate) fn load() -> f64 {
    // The kernel reports the load in fixed-point numbers with 16 fractional bits.
    #[expect(clippy::cast_precision_loss, reason = "no load is above 2^36")]
    let load = rustix::system::sysinfo().loads[0] as f64;
    load / f64::from(1 << 16)
}

/// The memory of the machine in GB, rounded down.
pub(crate) fn machine_memory_gb() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram * u64::from(info.mem_unit) / (1 << 30)
}

/// The model name of the first processor.
pub(crate) fn cpu_model() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    Ok(line.map_or("unknown processor", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned())
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The command is in parentheses and may contain blanks and parentheses; fields are counted after it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        start_time: ticks(19)?,
        cpu_seconds: seconds(ticks(11)? + ticks(12)?),
        is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

fn megabytes(status: &str, field: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|value| value.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// User, nice, system, irq and softirq time of all processors.
fn parse_busy(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    seconds([0, 1, 2, 5, 6].iter().filter_map(|&at| fields.get(at)).sum())
}

fn seconds(ticks: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no machine runs for 2^53 ticks")]
    let (ticks, per_second) = (ticks as f64, rustix::param::clock_ticks_per_second() as f64);
    ticks / per_second
}

#[cfg(test)]
mod tests {
    use super::{
        load, machine_cpu_seconds, machine_memory_gb, megabytes, memory, parse_busy, parse_stat, seconds, stat,
    };

    #[test]
    fn fields_are_counted_after_the_command() {
        let stat = parse_stat("7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 30 20 0 0 20 0 9 0 100 0").unwrap();
        assert!((stat.cpu_seconds - seconds(50)).abs() < f64::EPSILON);
        assert_eq!((stat.start_time, stat.is_zombie), (100, false));
        assert!(parse_stat("7 (a) Z 1 7 7 0 -1 4194560 9 0 0 0 30 20 0 0 20 0 9 0 100 0").unwrap().is_zombie);
    }

    #[test]
    fn memory_and_busy_time_are_read_in_their_units() {
        assert!((megabytes("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:") - 2.0).abs() < f64::EPSILON);
        assert!((parse_busy("cpu  1 2 3 100 100 4 5 0 0 0\ncpu0 9 9") - seconds(15)).abs() < f64::EPSILON);
    }

    #[test]
    fn this_process_and_this_machine_can_be_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!stat(own).unwrap().is_zombie && memory(own).unwrap().peak_mb > 0.0);
        assert!(machine_cpu_seconds().unwrap() > 0.0 && load() >= 0.0 && machine_memory_gb() > 0);
    }
}
