//! What processes have used so far, as the kernel counts it.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;

/// What one process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Of all its threads, in user and kernel mode.
    pub(super) cpu_seconds: f64,
    /// The most memory it had at any time.
    pub(super) peak_mb: f64,
}

/// What these processes have used, by name; and all processes of the machine together under [`MACHINE`].
pub(super) type Usage = BTreeMap<String, Used>;

pub(super) const MACHINE: &str = "machine";

/// Reads the usage of processes given by name and pid.
pub(super) fn read(processes: &[(String, i32)]) -> Result<Usage> {
    let mut usage = Usage::new();
    for (name, pid) in processes {
        usage.insert(name.clone(), of(*pid).with_context(|| format!("cannot tell what {name} uses"))?);
    }
    let machine = fs::read_to_string("/proc/stat")?;
    usage.insert(MACHINE.to_owned(), Used { cpu_seconds: busy(&machine), peak_mb: 0.0 });
    Ok(usage)
}

/// What one process has used.
pub(super) fn of(pid: i32) -> Result<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Used { cpu_seconds: cpu_seconds(&stat), peak_mb: peak_mb(&status) })
}

/// The memory that a process has now.
pub(super) fn resident_mb(pid: i32) -> Result<f64> {
    Ok(megabytes(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS:"))
}

fn seconds(ticks: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no machine runs for 2^53 ticks")]
    let (ticks, per_second) = (ticks as f64, rustix::param::clock_ticks_per_second() as f64);
    ticks / per_second
}

fn cpu_seconds(stat: &str) -> f64 {
    // The command's name stands in parentheses and may itself contain blanks: count the fields behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    seconds(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

fn peak_mb(status: &str) -> f64 {
    megabytes(status, "VmHWM:")
}

fn megabytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|field| field.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// User, nice, system, irq and softirq time of all processors.
fn busy(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    seconds([0, 1, 2, 5, 6].iter().filter_map(|&at| fields.get(at)).sum())
}

#[cfg(test)]
mod tests {
    use super::{busy, cpu_seconds, peak_mb, read, seconds};

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 30 20 0 0 20 0 9 0 100 0";
        assert!((cpu_seconds(stat) - seconds(50)).abs() < f64::EPSILON);
        assert!((peak_mb("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\n") - 2.0).abs() < f64::EPSILON);
        assert!((busy("cpu  1 2 3 100 100 4 5 0 0 0\ncpu0 9 9") - seconds(15)).abs() < f64::EPSILON);
    }

    #[test]
    fn our_own_usage_can_be_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let usage = read(&[("own".to_owned(), own)]).unwrap();
        assert!(usage["own"].peak_mb > 0.0 && usage["machine"].cpu_seconds > 0.0);
    }
}
