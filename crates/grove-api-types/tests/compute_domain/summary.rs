//! The summary of a domain, and its stale entries.

use grove_api_types::compute_domain::daemon_pod::DaemonPod;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::stale_entries::stale_entries;
use grove_api_types::compute_domain::summary::summary;

fn entry(node: &str, clique: &str, status: Readiness) -> Entry {
    let (node_name, clique_id) = (node.to_owned(), clique.to_owned());
    Entry { node_name, ip_address: format!("ip-{node}"), clique_id, index: 0, status }
}

fn pod(node: &str, clique: Option<&str>, is_ready: bool) -> DaemonPod {
    DaemonPod {
        name: format!("pod-{node}"),
        uid: format!("uid-{node}"),
        node: node.to_owned(),
        ip: format!("ip-{node}"),
        clique: clique.map(str::to_owned),
        index: None,
        is_ready,
        is_ending: false,
        created: None,
    }
}

/// The status as JSON without nodes, for the entries of cliques `x` and `y` with these states.
fn state(num_nodes: i64, x: &[Readiness], y: &[Readiness]) -> String {
    let clique = |id: &str, states: &[Readiness]| -> Vec<_> {
        states.iter().enumerate().map(|(node, status)| entry(&format!("{id}{node}"), id, *status)).collect()
    };
    let entries = [clique("x", x), clique("y", y)].concat();
    let status = summary(num_nodes, &entries, &[]);
    assert_eq!(status.nodes, []);
    serde_json::to_string(&status).unwrap()
}

#[test]
fn a_domain_is_ready_if_enough_daemons_are_registered_and_all_are_ready() {
    use Readiness::{NotReady, Ready};
    let ready = |cliques: &str| format!(r#"{{"status":"Ready","cliques":[{cliques}]}}"#);
    let not_ready = |cliques: &str| format!(r#"{{"status":"NotReady","cliques":[{cliques}]}}"#);
    let (x, y) = (r#"{"id":"x","status":"Ready"}"#, r#"{"id":"y","status":"Ready"}"#);
    let (x_not, both) = (r#"{"id":"x","status":"NotReady"}"#, format!("{x},{y}"));
    // Without daemon, there is no status, for any number of nodes.
    for num_nodes in [0, 1, 2, -1] {
        assert_eq!(state(num_nodes, &[], &[]), "{}");
    }
    // A lower bound that is reached, exceeded, or not reached.
    assert_eq!(state(0, &[Ready], &[]), ready(x));
    assert_eq!(state(2, &[Ready], &[Ready]), ready(&both));
    assert_eq!(state(1, &[Ready], &[Ready]), ready(&both));
    assert_eq!(state(3, &[Ready], &[Ready]), not_ready(&both));
    assert_eq!(state(-1, &[Ready], &[]), ready(x));
    // One daemon that is not ready.
    assert_eq!(state(0, &[Ready, NotReady], &[]), not_ready(x_not));
    assert_eq!(state(2, &[NotReady], &[Ready, Ready]), not_ready(&format!("{x_not},{y}")));
}

#[test]
fn nodes_without_fabric_count_and_belong_to_no_clique() {
    let entries = [entry("a", "x", Readiness::Ready)];
    let status = |is_ready| summary(2, &entries, &[pod("b", Some(""), is_ready), pod("c", None, true)]);
    let json = serde_json::to_string(&status(true)).unwrap();
    assert_eq!(
        json,
        r#"{"status":"Ready","nodes":[{"name":"b","ipAddress":"ip-b","cliqueID":"","index":-1,"status":"Ready"}],"cliques":[{"id":"x","status":"Ready"}]}"#
    );
    assert_eq!(status(false).status, Some(Readiness::NotReady));
    let mut terminating = pod("b", Some(""), true);
    terminating.is_ending = true;
    assert_eq!(summary(2, &entries, &[terminating]).status, Some(Readiness::NotReady));
}

#[test]
fn an_entry_is_stale_if_no_pod_of_its_clique_is_on_its_node() {
    let entries = ["a", "b", "c", "d", "e"].map(|node| entry(node, "x", Readiness::Ready));
    let mut terminating = pod("e", Some("x"), false);
    terminating.is_ending = true;
    let pods = [pod("a", Some("x"), false), pod("b", None, false), pod("c", Some("y"), true), terminating];
    let stale: Vec<_> = stale_entries(&entries, &pods).iter().map(|entry| entry.node_name.as_str()).collect();
    // The node of `c` has moved to another clique, the pod of `d` is deleted; `b` is not labelled yet, `e` removes its entry itself.
    assert_eq!(stale, ["c", "d"]);
}
