//! The name of the next pod at an index.

use std::collections::BTreeMap;

use expect_test::expect;

use super::{check, plan, snapshot};
use crate::expectations::{CliqueExpectations, Expectations, PendingCreate};

/// The name of the only created pod, without the prefix of the clique.
fn next(row: &str) -> String {
    let plan = plan(&snapshot(row));
    let created: Vec<_> = plan.steps().filter(|step| step.verb() == "create").collect();
    assert_eq!(created.len(), 1, "{plan}");
    created[0].target().name.trim_start_matches("llm-0-decode-").to_owned()
}

#[test]
fn the_name_of_a_successor_depends_on_its_predecessor_and_not_on_its_state() {
    let failed = next("{gang: [], pods: [{i: 0, name: a, phase: Failed}]}");
    let terminating = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let deleted = next("{gang: [], tombstones: [{i: 0, name: a}]}");
    assert_eq!((&failed, &failed), (&terminating, &deleted));
    assert_ne!(failed, next("{gang: []}"));
}

#[test]
fn the_last_predecessor_determines_the_name_in_any_order_of_deletion() {
    let second = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let uid_of_second = format!("{{i: 0, name: {second}, terminating: true}}");
    let third = next(&format!("{{gang: [], pods: [{uid_of_second}]}}"));
    let a = "{i: 0, name: a, terminating: true}";
    assert_eq!(next(&format!("{{gang: [], pods: [{a}, {uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{a}], tombstones: [{uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{uid_of_second}], tombstones: [{a}]}}")), third);
}

#[test]
fn conflicting_names_are_skipped() {
    let first = next("{gang: []}");
    let second = next(&format!("{{gang: [], conflicting: [llm-0-decode-{first}]}}"));
    assert_ne!(first, second);
    assert_eq!(next(&format!("{{replicas: 2, gang: [], pods: [{{i: 1, name: {first}}}]}}")), second);
}

#[test]
fn an_unconfirmed_create_is_repeated_under_the_same_name() {
    let mut observed = snapshot("{gang: []}");
    observed
        .expectations
        .creates
        .insert(0, PendingCreate { name: "llm-0-decode-pending".into(), ..PendingCreate::default() });
    expect![[r"
        pods: create Pod llm-0-decode-pending
    "]]
    .assert_eq(&plan(&observed).to_string());
    observed.expectations.conflicting_names.insert("llm-0-decode-pending".into());
    assert!(!plan(&observed).to_string().contains("pending"));
}

#[test]
fn a_confirmed_create_is_expected_in_the_cache_until_a_relist() {
    let mut observed = snapshot("{replicas: 2, gang: []}");
    let created = |index: i32| {
        (index, PendingCreate { name: format!("llm-0-decode-{index}"), uid: Some(format!("uid-{index}")), relists: 1 })
    };
    let expected = CliqueExpectations { creates: [0, 1].map(created).into(), ..CliqueExpectations::default() };
    let expectations = Expectations::from(BTreeMap::from([("clique-uid".to_owned(), expected)]));
    observed.expectations = expectations.get("clique-uid", std::iter::empty(), 1);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
    observed.expectations = expectations.get("clique-uid", std::iter::empty(), 2);
    expect![[r"
        pods: create Pod llm-0-decode-0
        pods: create Pod llm-0-decode-1
    "]]
    .assert_eq(&plan(&observed).to_string());
}

#[test]
fn each_index_has_its_own_names() {
    check(
        "{replicas: 4, gang: []}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        pods: create Pod ~-vk7tm
        pods: create Pod ~-6vmjz
        pods: create Pod ~-fw7hg
    "]],
    );
}
