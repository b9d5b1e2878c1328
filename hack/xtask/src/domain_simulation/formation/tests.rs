//! Reports of small domains, and what follows from them.

use super::*;
use grove_api_types::compute_domain::entry::Readiness::{self, NotReady, Ready};
use std::slice::from_ref;

fn member(node: &str, clique: &str) -> Member {
    Member { node: node.to_owned(), clique: clique.to_owned(), address: format!("10.0.0.{node}") }
}

fn entry(node: &str, index: i64, status: Readiness) -> Entry {
    let Member { node, clique, address } = member(node, "c");
    Entry { node_name: node, ip_address: address, clique_id: clique, index, status }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn peers(node: &str, peers: &[Entry]) -> Report {
    Report::Peers { daemon: member(node, "c"), peers: peers.to_vec(), is_restart: false }
}

fn stored(entries: &[Entry]) -> Report {
    Report::CliqueEntries { clique: "c".to_owned(), entries: entries.to_vec() }
}

/// A domain of two daemons after these reports, one per second.
fn after(reports: impl IntoIterator<Item = Report>) -> Formation {
    let mut formation = Formation::new([member("1", "c"), member("2", "c")]);
    for (report, second) in reports.into_iter().zip(1..) {
        formation.apply(at(second), report);
    }
    formation
}

#[test]
fn each_milestone_has_the_time_of_its_last_report() {
    let (one, two) = (entry("1", 0, Ready), entry("2", 1, Ready));
    let formation = after([
        stored(&[entry("1", 0, NotReady)]),
        peers("1", from_ref(&one)),
        stored(&[one.clone(), entry("2", 1, NotReady)]),
        peers("2", &[one.clone(), two.clone()]),
        stored(&[one.clone(), two.clone()]),
        Report::Domain { is_ready: true },
        peers("1", &[one, two]),
    ]);
    let Milestones { present, ready, first_peers, domain, converged } = formation.milestones;
    assert_eq!([present, ready, first_peers, domain, converged], [3, 5, 4, 6, 7].map(|second| Some(at(second))));
    assert!(formation.violations().is_empty());
    assert_eq!((formation.progress(), formation.index_changes, formation.restarts), (6, 0, 0));
}

#[test]
fn entries_in_the_domain_belong_to_their_cliques() {
    let mut foreign = entry("9", 0, Ready);
    foreign.clique_id = "other".to_owned();
    let formation = after([Report::Entries(vec![entry("1", 0, Ready), foreign])]);
    assert_eq!(formation.progress(), 2);
    let expected = [
        "the unknown clique other has 1 entries",
        "clique c: of 2 daemons, 1 have an entry, and 1 are Ready",
        "the domain is not Ready",
    ];
    assert_eq!(formation.violations(), expected);
    let removed = after([Report::Entries(vec![entry("1", 0, Ready)]), Report::Entries(Vec::new())]);
    assert_eq!(removed.progress(), 0);
}

#[test]
fn each_invariant_has_a_message() {
    let (one, two) = (entry("1", 0, Ready), entry("2", 1, Ready));
    let all = [one.clone(), two.clone()];
    let check = |stored_entries: &[Entry], of_two: &[Entry], expected: &str, contradicts: bool| {
        let reports = [stored(stored_entries), peers("1", &all), peers("2", of_two), Report::Domain { is_ready: true }];
        let formation = after(reports);
        assert!(!formation.is_converged());
        assert_eq!(formation.violations(), [expected]);
        assert_eq!(!formation.contradictions().is_empty(), contradicts, "{expected}");
    };
    check(&[one.clone(), entry("2", 0, Ready)], &all, "clique c: the indices are [0, 0]", true);
    check(&[one.clone(), entry("2", 2, Ready)], &all, "clique c: the indices are [0, 2]", true);
    let foreign = [one.clone(), two.clone(), entry("3", 2, Ready)];
    check(&foreign, &all, "clique c: the entry of node 3 with address 10.0.0.3 is of no daemon", true);
    check(&all, from_ref(&two), "clique c: the daemon of node 2 has not all peers", false);
    let incomplete = [one, entry("2", 1, NotReady)];
    check(&incomplete, &all, "clique c: of 2 daemons, 2 have an entry, and 1 are Ready", false);
}

#[test]
fn a_later_report_can_violate_an_invariant_of_a_converged_domain() {
    let (one, two) = (entry("1", 0, Ready), entry("2", 1, Ready));
    let all = [one, two.clone()];
    let reports = [stored(&all), peers("1", &all), peers("2", &all), Report::Domain { is_ready: true }];
    let formation = after(reports.into_iter().chain([stored(&[two])]));
    assert!(formation.is_converged());
    assert_eq!(formation.violations(), ["clique c: of 2 daemons, 1 have an entry, and 1 are Ready"]);
}

#[test]
fn a_duplicate_index_is_no_first_view() {
    let (one, two) = (entry("1", 0, Ready), entry("2", 0, Ready));
    let formation = after([peers("1", &[one.clone(), two.clone()]), peers("2", &[one, two])]);
    assert_eq!(formation.milestones.first_peers, None);
}

#[test]
fn another_index_of_a_pod_is_counted() {
    let change = Report::Peers { daemon: member("1", "c"), peers: Vec::new(), is_restart: true };
    let formation = after([stored(&[entry("1", 0, Ready)]), stored(&[entry("1", 1, Ready)]), change]);
    assert_eq!((formation.index_changes, formation.restarts), (1, 1));
}

#[test]
fn a_replaced_daemon_has_to_register_again() {
    let (one, two) = (entry("1", 0, Ready), entry("2", 1, Ready));
    let all = [one.clone(), two];
    let mut formation = after([stored(&all), peers("1", &all), peers("2", &all), Report::Domain { is_ready: true }]);
    assert!(formation.violations().is_empty());
    formation.replace(&member("2", "c"), member("3", "c"));
    // A late report of the daemon that has ended changes nothing.
    formation.apply(at(5), peers("2", &all));
    assert_eq!(formation.violations(), ["clique c: the entry of node 2 with address 10.0.0.2 is of no daemon"]);
    let all = [one, entry("3", 1, Ready)];
    for report in [stored(&all), peers("1", &all), peers("3", &all)] {
        assert!(!formation.violations().is_empty());
        formation.apply(at(6), report);
    }
    assert!(formation.violations().is_empty());
}
