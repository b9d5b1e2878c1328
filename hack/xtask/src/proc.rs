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

/// Reads `/proc/PID/stat`; `None` if there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes of the machine.
pub(crate) fn pids() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc").context("cannot read /proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The file name of the program that a process runs; `None` for threads of the kernel and processes of other users.
pub(crate) fn program(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    // Linux appends this to the path of a program that was replaced.
    Some(path.file_name()?.to_str()?.trim_end_matches(" (deleted)").to_owned())
}

/// The memory that the kernel cannot give to new processes, in GB.
pub(crate) fn used_memory_gb() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let kilobytes = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    Ok((kilobytes("MemTotal:") - kilobytes("MemAvailable:")) / f64::from(1 << 20))
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
        // The first thread of a process may have exited before the others, which hold its sockets.
        is_zombie: matches!(fields.first(), Some(&("Z" | "X"))) && ticks(17)? <= 1,
    })
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
    use super::{load, machine_cpu_seconds, machine_memory_gb, parse_busy, parse_stat, seconds, stat};

    #[test]
    fn fields_are_counted_after_the_command() {
        let stat = parse_stat("7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 30 20 0 0 20 0 9 0 100 0").unwrap();
        assert!((stat.cpu_seconds - seconds(50)).abs() < f64::EPSILON);
        assert_eq!((stat.start_time, stat.is_zombie), (100, false));
        assert!(parse_stat("7 (a) Z 1 7 7 0 -1 4194560 9 0 0 0 30 20 0 0 20 0 1 0 100 0").unwrap().is_zombie);
    }

    #[test]
    fn busy_time_is_read_in_seconds() {
        assert!((parse_busy("cpu  1 2 3 100 100 4 5 0 0 0\ncpu0 9 9") - seconds(15)).abs() < f64::EPSILON);
    }

    #[test]
    fn this_process_and_this_machine_can_be_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!stat(own).unwrap().is_zombie);
        assert!(machine_cpu_seconds().unwrap() > 0.0 && load() >= 0.0 && machine_memory_gb() > 0);
    }
}
