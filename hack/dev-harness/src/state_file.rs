//! The JSON files in which `cargo xtask` stores the processes and the ports of a dev cluster, by name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The file with a [`ProcessEntry`] for each process.
pub const PROCESSES: &str = "pids.json";
/// The file with the number of each port.
pub const PORTS: &str = "ports.json";

/// A process that `cargo xtask` started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProcessEntry {
    /// The kernel reuses the pids of dead processes.
    pub pid: i32,
    /// In clock ticks since boot.
    pub started: u64,
    /// A hash of the program, its arguments and its inputs.
    pub fingerprint: String,
    /// Whether it ends by SIGKILL instead of SIGTERM.
    #[serde(default)]
    pub is_killed: bool,
}

/// Reads the entries of a file. Without the file there are none.
///
/// # Errors
/// If the file is damaged.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<BTreeMap<String, T>> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))
}
