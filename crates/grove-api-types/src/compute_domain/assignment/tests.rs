//! Tests of the assignment.

use super::*;
use crate::compute_domain::entry::Readiness;

/// A pod in clique `c`: node, index that its daemon has published, whether it is terminating. Its address is that of its node.
fn pod(node: &str, index: Option<i64>, is_ending: bool) -> DaemonPod {
    DaemonPod {
        name: format!("pod-{node}"),
        uid: format!("uid-{node}"),
        node: node.to_owned(),
        ip: format!("ip-{node}"),
        clique: Some("c".to_owned()),
        index,
        is_ready: false,
        is_ending,
        created: None,
    }
}

fn live(node: &str) -> DaemonPod {
    pod(node, None, false)
}

fn entry(node: &str, index: i64) -> Entry {
    let (node_name, ip_address) = (node.to_owned(), format!("ip-{node}"));
    Entry { node_name, ip_address, clique_id: "c".to_owned(), index, status: Readiness::NotReady }
}

/// The nodes and their indices, and the problems.
fn assigned(current: &[Entry], pods: &[DaemonPod]) -> (Vec<(String, i64)>, Vec<String>) {
    let assignment = assign("c", current, pods, 4);
    let nodes = assignment.entries.iter().map(|entry| (entry.node_name.clone(), entry.index)).collect();
    (nodes, assignment.problems.iter().map(ToString::to_string).collect())
}

fn indices(current: &[Entry], pods: &[DaemonPod]) -> Vec<(String, i64)> {
    let (nodes, problems) = assigned(current, pods);
    assert_eq!(problems, [""; 0]);
    nodes
}

fn nodes(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(node, index)| ((*node).to_owned(), *index)).collect()
}

#[test]
fn new_nodes_fill_the_gaps_and_others_retain_their_index() {
    let pods = ["a", "b", "d", "e"].map(live);
    let current = [entry("b", 2), entry("d", 0)];
    assert_eq!(indices(&current, &pods), nodes(&[("d", 0), ("a", 1), ("b", 2), ("e", 3)]));
    assert_eq!(indices(&[], &pods), nodes(&[("a", 0), ("b", 1), ("d", 2), ("e", 3)]));
}

#[test]
fn an_entry_ends_with_its_pod() {
    let current = [entry("a", 0), entry("b", 1), entry("c", 2)];
    let pods = [pod("a", Some(0), true), live("c")];
    assert_eq!(indices(&current, &pods), nodes(&[("c", 2)]));
}

#[test]
fn a_pod_without_label_retains_the_entry_of_its_node_and_gets_no_other() {
    let next = DaemonPod { clique: None, ip: "new".to_owned(), ..live("b") };
    let new = DaemonPod { clique: None, ..live("d") };
    let pods = [live("a"), next, new];
    let assignment = assign("c", &[entry("a", 1), entry("b", 2)], &pods, 4);
    let retained = Entry { ip_address: "new".to_owned(), ..entry("b", 2) };
    assert_eq!((assignment.entries, assignment.problems), (vec![entry("a", 1), retained], vec![]));
}

#[test]
fn an_entry_without_terminating_pod_is_removed_only_after_a_live_list() {
    let current = [entry("a", 0), entry("b", 2)];
    let loses = |pods: &[DaemonPod]| loses_entries("c", &current, pods, 4);
    assert!(!loses(&[live("a"), live("b"), live("d")]));
    assert!(!loses(&[live("a"), pod("b", None, true)]), "its pod is terminating");
    assert!(loses(&[live("a")]));
    assert!(
        loses(&[live("a"), DaemonPod { ip: "new".to_owned(), ..pod("b", None, true) }]),
        "another pod is terminating"
    );
    assert!(loses_entries("c", &[entry("a", 9)], &[live("a")], 4), "the index changes");
}

#[test]
fn a_deleted_object_is_rebuilt_with_the_published_indices() {
    let pods = [pod("a", Some(2), false), live("b"), pod("d", Some(0), false)];
    assert_eq!(indices(&[], &pods), nodes(&[("d", 0), ("b", 1), ("a", 2)]));
}

#[test]
fn an_entry_counts_more_than_a_published_index() {
    // The daemon of `a` published an index of a deleted object, and has not started with it.
    let pods = [pod("a", Some(1), false), live("b")];
    assert_eq!(indices(&[entry("b", 1)], &pods), nodes(&[("a", 0), ("b", 1)]));
}

#[test]
fn the_next_pod_of_a_node_has_the_index_and_its_own_address() {
    let next = DaemonPod { name: "next".to_owned(), ip: "new".to_owned(), uid: "new".to_owned(), ..live("a") };
    let assignment = assign("c", &[entry("a", 3)], &[pod("a", Some(3), true), next], 4);
    assert_eq!(assignment.entries, [Entry { ip_address: "new".to_owned(), ..entry("a", 3) }]);
    assert_eq!(assignment.owners, [ComputeDomainClique::owner("next", "new")]);
    assert_eq!(assignment.problems, []);
}

#[test]
fn an_invalid_index_is_replaced() {
    let current = [entry("a", 4), entry("b", -1), entry("c", 1), entry("d", 1)];
    let pods = ["a", "b", "c", "d"].map(live);
    assert_eq!(indices(&current, &pods), nodes(&[("a", 0), ("c", 1), ("b", 2), ("d", 3)]));
}

#[test]
fn the_readiness_is_that_of_the_pod_and_pods_of_other_cliques_do_not_count() {
    let ready = DaemonPod { is_ready: true, ..live("a") };
    let other = DaemonPod { clique: Some("other".to_owned()), ..live("b") };
    let unlabelled = DaemonPod { clique: None, ..live("d") };
    let entries = assign("c", &[entry("b", 0)], &[ready, other, unlabelled], 4).entries;
    assert_eq!(entries, [Entry { status: Readiness::Ready, ..entry("a", 0) }]);
}

#[test]
fn a_node_above_the_limit_gets_no_entry_and_the_others_stay() {
    let pods = ["a", "b", "c", "d", "e"].map(live);
    let current = [entry("e", 0)];
    let (assigned, problems) = assigned(&current, &pods);
    assert_eq!(assigned, nodes(&[("e", 0), ("a", 1), ("b", 2), ("c", 3)]));
    assert_eq!(
        problems,
        [
            "clique c has no free index for node d: it has 4 nodes already; delete the daemon pod of a node that needs no \
             fabric"
        ]
    );
}

#[test]
fn of_two_pods_on_a_node_the_one_with_the_entry_counts() {
    let with_entry = DaemonPod { name: "z".to_owned(), ..live("a") };
    let other = DaemonPod { name: "b".to_owned(), ip: "other".to_owned(), ..live("a") };
    let (assigned, problems) = assigned(&[entry("a", 1)], &[other, with_entry]);
    assert_eq!(assigned, nodes(&[("a", 1)]));
    assert_eq!(problems, ["two daemon pods run on node a, which can have only one entry: z and b; delete b"]);
}
