//! The name of the next pod at an index.

use std::collections::BTreeMap;

use expect_test::expect;

use super::{check, world};
use crate::clique::plan::plan;
use crate::memory::{Asked, Memory, Recollection};

/// The name that the only create of the plan has, without the clique's.
fn next(row: &str) -> String {
    let plan = plan(&world(row));
    let created: Vec<_> = plan.steps().filter(|step| step.verb() == "create").collect();
    assert_eq!(created.len(), 1, "{plan}");
    created[0].target().name.trim_start_matches("llm-0-decode-").to_owned()
}

#[test]
fn a_successor_is_named_after_its_predecessor_however_far_that_is_gone() {
    let failed = next("{gang: [], pods: [{i: 0, name: a, phase: Failed}]}");
    let leaving = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let gone = next("{gang: [], departed: [{i: 0, name: a}]}");
    assert_eq!((&failed, &failed), (&leaving, &gone));
    assert_ne!(failed, next("{gang: []}"));
}

#[test]
fn the_last_of_several_predecessors_counts_whatever_their_order_of_going() {
    let second = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let uid_of_second = format!("{{i: 0, name: {second}, terminating: true}}");
    let third = next(&format!("{{gang: [], pods: [{uid_of_second}]}}"));
    let a = "{i: 0, name: a, terminating: true}";
    assert_eq!(next(&format!("{{gang: [], pods: [{a}, {uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{a}], departed: [{uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{uid_of_second}], departed: [{a}]}}")), third);
}

#[test]
fn taken_names_are_skipped() {
    let first = next("{gang: []}");
    let second = next(&format!("{{gang: [], taken: [llm-0-decode-{first}]}}"));
    assert_ne!(first, second);
    assert_eq!(next(&format!("{{replicas: 2, gang: [], pods: [{{i: 1, name: {first}}}]}}")), second);
}

#[test]
fn what_was_asked_for_and_not_seen_is_asked_for_again() {
    let mut seen = world("{gang: []}");
    seen.remembered.asked.insert(0, Asked { name: "llm-0-decode-asked".into(), ..Asked::default() });
    expect![[r"
        pods: create Pod llm-0-decode-asked
    "]]
    .assert_eq(&plan(&seen).to_string());
    seen.remembered.refused.insert("llm-0-decode-asked".into());
    assert!(!plan(&seen).to_string().contains("asked"));
}

#[test]
fn what_was_created_and_is_not_seen_yet_is_waited_for_until_all_is_read_anew() {
    let mut seen = world("{replicas: 2, gang: []}");
    let created = |index: i32| {
        (index, Asked { name: format!("llm-0-decode-{index}"), uid: Some(format!("uid-{index}")), lists: 1 })
    };
    let remembered = Recollection { asked: [0, 1].map(created).into(), ..Recollection::default() };
    let memory = Memory::from(BTreeMap::from([("clique-uid".to_owned(), remembered)]));
    seen.remembered = memory.recall("clique-uid", std::iter::empty(), 1);
    assert_eq!(plan(&seen).to_string(), "nothing to do\n");
    seen.remembered = memory.recall("clique-uid", std::iter::empty(), 2);
    expect![[r"
        pods: create Pod llm-0-decode-0
        pods: create Pod llm-0-decode-1
    "]]
    .assert_eq(&plan(&seen).to_string());
}

#[test]
fn indices_have_names_of_their_own() {
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
