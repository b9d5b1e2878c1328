//! The summary of a domain: whether it is ready, and each of its cliques.

use std::collections::BTreeMap;

use super::daemon_pod::DaemonPod;
use super::entry::{Entry, Readiness};
use super::status::{ComputeDomainCliqueStatus, ComputeDomainNode, ComputeDomainStatus};

/// The status of a domain with `num_nodes`, without the entries of nodes with fabric.
///
/// - `entries` are the entries of its nodes with fabric, of all cliques.
/// - `pods` are the pods of its daemons. Those on nodes without fabric are nodes of the domain too, with index -1.
///
/// The domain is ready if it has at least `num_nodes` nodes, and at least one, and if all of them are ready. Its status is absent
/// while it has no node.
pub fn summary(num_nodes: i64, entries: &[Entry], pods: &[DaemonPod]) -> ComputeDomainStatus {
    let nodes: Vec<_> =
        pods.iter().filter(|pod| !pod.has_fabric() && !pod.is_ending).map(node_without_fabric).collect();
    let states = || entries.iter().map(|entry| entry.status).chain(nodes.iter().map(|node| node.status));
    let count = i64::try_from(states().count()).unwrap_or(i64::MAX);
    let is_ready = count >= num_nodes.max(1) && states().all(|state| state == Readiness::Ready);
    ComputeDomainStatus { status: (count > 0).then(|| Readiness::of(is_ready)), cliques: cliques(entries), nodes }
}

/// The cliques of the entries. A clique is ready if all its daemons are ready.
fn cliques(entries: &[Entry]) -> Vec<ComputeDomainCliqueStatus> {
    let mut cliques: BTreeMap<&str, bool> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.clique_id.is_empty()) {
        let are_ready = cliques.entry(&entry.clique_id).or_insert(true);
        *are_ready &= entry.status == Readiness::Ready;
    }
    let status = |(id, are_ready): (&str, bool)| ComputeDomainCliqueStatus {
        id: id.to_owned(),
        status: Readiness::of(are_ready),
    };
    cliques.into_iter().map(status).collect()
}

fn node_without_fabric(pod: &DaemonPod) -> ComputeDomainNode {
    pod.new_entry("", -1).into()
}
