//! What the gang is told.

use expect_test::expect;
use grove_runtime::caches::Delta;

use super::{check, gang};
use crate::clique::observe::touched;

#[test]
fn the_gang_hears_of_the_pods_once_all_are_there() {
    check(
        "{replicas: 2, gang: [], pods: [{i: 0, name: a}]}",
        &expect![[r"
        pods: create Pod ~-vk7tm
    "]],
    );
    check(
        "{replicas: 2, gang: [], pods: [{i: 0, name: b}, {i: 1, name: a}]}",
        &expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"},{"name":"~-b","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn once_told_the_gang_hears_of_every_change() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b, terminating: true}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
            pods: create Pod ~-lpll5
        "#]],
    );
    check(
        "{replicas: 1, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b}]}",
        &expect![[r#"
        pods: delete Pod ~-b
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn the_gang_is_told_once_while_the_cache_has_not_heard_of_it() {
    check("{replicas: 1, gang: [], told: '7', pods: [{i: 0, name: a}]}", &expect!["nothing to do\n"]);
    check(
        "{replicas: 1, gang: [], told: '6', pods: [{i: 0, name: a}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
        "#]],
    );
}

#[test]
fn pods_are_made_without_waiting_for_the_gang() {
    check(
        "{replicas: 1}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
    check(
        "{replicas: 1, pods: [{i: 0, name: a}]}",
        &expect![[r"
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
}

#[test]
fn a_gang_without_the_clique_is_waited_for() {
    let mut seen = super::world("{replicas: 1, gang: [], pods: [{i: 0, name: a}]}");
    let mut gang = (**seen.gang.as_ref().unwrap()).clone();
    gang.spec.podgroups.pop();
    seen.gang = Some(gang.into());
    expect![[r"
        wait: PodGroupNotFound PodGang llm-0 has no podgroup llm-0-decode
    "]]
    .assert_eq(&crate::clique::plan::plan(&seen).to_string());
}

#[test]
fn a_gang_wakes_the_cliques_whose_entry_changed() {
    let change = |before: Option<&str>, after: Option<&str>| {
        let gang = |listed: &str| gang(&serde_saphyr::from_str(listed).unwrap());
        let delta = Delta { old: before.map(gang), new: after.map(gang) };
        touched(&delta).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let both = change(None, Some("[]"));
    assert!(both.contains("llm-0-decode") && both.contains("llm-0-prefill"), "{both}");
    assert_eq!(change(Some("[]"), None), both);
    assert_eq!(change(Some("[a]"), Some("[a]")), "");
    let one = change(Some("[a]"), Some("[b]"));
    assert!(one.contains("llm-0-decode") && !one.contains("prefill"), "{one}");
}
