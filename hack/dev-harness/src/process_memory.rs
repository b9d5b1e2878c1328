//! The memory of a process, as Linux counts it.

use anyhow::{Context, Result};

/// Memory of one process, in megabytes of 2^20 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessMemory {
    /// Resident memory.
    pub resident: f64,
    /// The highest resident memory since the process started.
    pub peak: f64,
    /// Resident memory without mapped files: the heap and the stacks.
    pub anonymous: f64,
}

/// Reads the memory of a process from `/proc/PID/status`. A zombie has none.
///
/// # Errors
/// If there is no such process.
pub fn of(pid: i32) -> Result<ProcessMemory> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(ProcessMemory {
        resident: megabytes(&text, "VmRSS:"),
        peak: megabytes(&text, "VmHWM:"),
        anonymous: megabytes(&text, "RssAnon:"),
    })
}

fn megabytes(status: &str, field: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|value| value.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

#[cfg(test)]
mod tests {
    use super::{megabytes, of};

    #[test]
    fn memory_is_read_in_megabytes() {
        assert!((megabytes("VmPeak:\t9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:") - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_memory_of_this_process_is_read() {
        let own = of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.anonymous > 0.0 && own.resident >= own.anonymous && own.peak > 0.0);
    }
}
