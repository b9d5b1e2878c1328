//! The entries of a clique, as mnnvl-controller derives them from the pods of the daemons
//! ([`Strategy::ControllerClique`](super::strategy::Strategy::ControllerClique)).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::clique::ComputeDomainClique;
use super::daemon_pod::DaemonPod;
use super::entry::{self, Entry};
use super::problem::Problem;

/// The desired content of the object of a clique.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The entries, sorted by index.
    pub entries: Vec<Entry>,
    /// The owner references to the pods of the entries, in the same order.
    pub owners: Vec<OwnerReference>,
    /// The pods that get no entry, and why.
    pub problems: Vec<Problem>,
}

/// The entries of the clique `id`, from its current entries and the pods of the domain. Each node has one entry, of its live pod. It
/// gets the first of these indices that is free: that of the current entry of the node, that which its daemon has published, and the
/// lowest. So the index of a node never changes while its pod runs. A pod that its daemon has not labelled yet retains the entry of
/// its node, and gets no new one.
pub fn assign(id: &str, current: &[Entry], pods: &[DaemonPod], max_nodes: usize) -> Assignment {
    let mut problems = Vec::new();
    let pods = live_pods(id, current, pods, &mut problems);
    let mut indices = Indices { max_nodes, by_node: BTreeMap::new(), used: BTreeSet::new() };
    for pod in &pods {
        indices.take(pod, pod.entry(current).map(|entry| entry.index));
    }
    for pod in &pods {
        indices.take(pod, pod.index);
    }
    let mut assigned: Vec<_> = Vec::new();
    for pod in pods {
        if pod.clique.is_some() && !indices.take_lowest(pod) {
            problems.push(Problem::CliqueFull { clique: id.to_owned(), node: pod.node.clone(), max_nodes });
        }
        assigned.extend(indices.by_node.get(pod.node.as_str()).map(|index| (*index, pod)));
    }
    assigned.sort_by_key(|(index, _)| *index);
    Assignment {
        entries: assigned.iter().map(|(index, pod)| pod.new_entry(id, *index)).collect(),
        owners: assigned.iter().map(|(_, pod)| ComputeDomainClique::owner(&pod.name, &pod.uid)).collect(),
        problems,
    }
}

/// Whether these pods, which may be older than the entries, would remove an entry or change its index, although no terminating pod
/// explains it. A live LIST of the pods shows whether that is right.
pub fn loses_entries(id: &str, current: &[Entry], pods: &[DaemonPod], max_nodes: usize) -> bool {
    let assigned = assign(id, current, pods, max_nodes).entries;
    let is_retained =
        |entry: &Entry| assigned.iter().any(|other| other.node_name == entry.node_name && other.index == entry.index);
    let has_ended = |entry: &Entry| pods.iter().any(|pod| pod.is_ending && pod.owns(entry));
    current.iter().any(|entry| !is_retained(entry) && !has_ended(entry))
}

/// The nodes of the clique on which two daemons run.
pub fn nodes_with_two_daemons(id: &str, current: &[Entry], pods: &[DaemonPod]) -> Vec<Problem> {
    let mut problems = Vec::new();
    live_pods(id, current, pods, &mut problems);
    problems
}

/// One live pod per node of the clique, the oldest first. If a node has two, the one with the entry counts, otherwise the oldest.
fn live_pods<'a>(
    id: &str,
    current: &[Entry],
    pods: &'a [DaemonPod],
    problems: &mut Vec<Problem>,
) -> Vec<&'a DaemonPod> {
    let is_member = |pod: &&DaemonPod| match pod.clique.as_deref() {
        Some(clique) => clique == id,
        None => pod.entry(current).is_some(),
    };
    let mut live: Vec<_> = pods.iter().filter(|pod| is_member(pod) && !pod.is_ending).collect();
    live.sort_by_key(|pod| {
        let has_entry = pod.entry(current).is_some_and(|entry| pod.owns(entry));
        (!has_entry, pod.created.clone(), &pod.node, &pod.name)
    });
    let mut by_node: BTreeMap<&str, &DaemonPod> = BTreeMap::new();
    live.retain(|pod| match by_node.get(pod.node.as_str()) {
        None => {
            by_node.insert(&pod.node, pod);
            true
        }
        Some(first) => {
            let (node, other) = (pod.node.clone(), pod.name.clone());
            problems.push(Problem::TwoDaemons { node, pod: first.name.clone(), other });
            false
        }
    });
    live
}

/// The indices of the nodes.
struct Indices<'a> {
    max_nodes: usize,
    by_node: BTreeMap<&'a str, i64>,
    used: BTreeSet<i64>,
}

impl<'a> Indices<'a> {
    /// Assigns the index to the node of the pod, if the node has none yet, and the index is free and valid.
    fn take(&mut self, pod: &'a DaemonPod, index: Option<i64>) {
        let Some(index) = index else { return };
        let is_valid = entry::is_valid_index(index, self.max_nodes);
        if is_valid && !self.by_node.contains_key(pod.node.as_str()) && self.used.insert(index) {
            self.by_node.insert(&pod.node, index);
        }
    }

    /// Assigns the lowest free index, if the node has none yet. False if there is none.
    fn take_lowest(&mut self, pod: &'a DaemonPod) -> bool {
        self.take(pod, Some(entry::lowest_free_index(&self.used)));
        self.by_node.contains_key(pod.node.as_str())
    }
}

#[cfg(test)]
mod tests;
