//! Entries whose daemon ended without removing its entry.

use super::daemon_pod::DaemonPod;
use super::entry::Entry;

/// The entries that no pod of the domain has: there is no pod on the node, or only pods of other cliques. A pod counts until it is
/// deleted, because a terminating daemon removes its entry itself. `pods` must be a live LIST: the watch of the entries may be ahead
/// of the watch of the pods.
pub fn stale_entries<'a>(entries: &'a [Entry], pods: &[DaemonPod]) -> Vec<&'a Entry> {
    let has = |entry: &Entry, pod: &DaemonPod| {
        // A pod that its daemon has not labelled yet may belong to any clique.
        pod.node == entry.node_name && pod.clique.as_ref().is_none_or(|clique| *clique == entry.clique_id)
    };
    entries.iter().filter(|entry| !pods.iter().any(|pod| has(entry, pod))).collect()
}
