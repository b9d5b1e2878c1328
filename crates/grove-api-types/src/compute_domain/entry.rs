//! The entry of one daemon in the state of a domain, and the index that it has in its clique.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::enum_decoding::unknown_as_default;

/// Whether a daemon, a clique or a domain is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Readiness {
    /// Ready.
    Ready,
    /// Not ready, or the state of a later version.
    #[default]
    NotReady,
}

impl Readiness {
    /// `Ready` if `is_ready`.
    pub fn of(is_ready: bool) -> Self {
        if is_ready { Self::Ready } else { Self::NotReady }
    }
}

/// What the daemon of a node publishes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The node. An object has at most one entry per node.
    pub node_name: String,
    /// The address of the daemon's pod.
    pub ip_address: String,
    /// The clique of the node. Empty without `NVLink` fabric.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// The number of the daemon in its clique, from 0. -1 without fabric. The IMEX process of each node reads the addresses of the
    /// others in this order when it starts, so the index of a started daemon must not change.
    #[serde(default)]
    pub index: i64,
    /// Whether the daemon is ready. Default: `NotReady`.
    #[serde(default, deserialize_with = "unknown_as_default")]
    pub status: Readiness,
}

/// The entry of the node.
pub fn of_node<'a>(entries: &'a [Entry], node: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.node_name == node)
}

/// The entries of the clique.
pub fn of_clique<'a>(entries: &'a [Entry], clique: &'a str) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(move |entry| entry.clique_id == clique)
}

/// The lowest index, from 0, that is not used.
pub fn lowest_free_index(used: &BTreeSet<i64>) -> i64 {
    // One of so many indices is free.
    let last = i64::try_from(used.len()).unwrap_or(i64::MAX);
    (0..last).find(|index| !used.contains(index)).unwrap_or(last)
}

/// Whether a clique with this many nodes has the index.
pub fn is_valid_index(index: i64, max_nodes: usize) -> bool {
    usize::try_from(index).is_ok_and(|index| index < max_nodes)
}

/// Whether two of the entries have the same index.
pub fn has_duplicate_index<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> bool {
    let mut used = BTreeSet::new();
    entries.into_iter().any(|entry| !used.insert(entry.index))
}
