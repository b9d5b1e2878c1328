//! The pod references in the gang.

use expect_test::expect;
use grove_api_types::expansion::object_count::MAX_GANG_PODS;
use grove_api_types::scheduler_v1alpha1::NamespacedName;
use grove_runtime::caches::Delta;

use super::{check, gang, plan};
use crate::clique::triggers::cliques_of_changed_pod_groups;

#[test]
fn pod_references_are_first_written_when_the_clique_is_complete() {
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
fn written_pod_references_follow_every_change() {
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
fn pod_references_are_written_once_per_observed_version_of_the_gang() {
    check("{replicas: 1, gang: [], writtenAt: '7', pods: [{i: 0, name: a}]}", &expect!["nothing to do\n"]);
    check(
        "{replicas: 1, gang: [], writtenAt: '6', pods: [{i: 0, name: a}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
        "#]],
    );
}

#[test]
fn a_gang_has_a_limited_number_of_pod_references() {
    let pods = "[{i: 0, name: c}, {i: 1, name: b}, {i: 2, name: a}]";
    let mut observed = super::snapshot(&format!("{{replicas: 3, gang: [], pods: {pods}}}"));
    let mut gang = (**observed.gang.as_ref().unwrap()).clone();
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "other".to_owned() };
    gang.spec.podgroups[0].pod_references = vec![reference; MAX_GANG_PODS - 1];
    observed.gang = Some(gang.into());
    expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-c","namespace":"prod"}]}]
        wait: TooManyPodReferences PodGang llm-0 has the largest number of pod references, 8000; 2 pods of the clique have no reference
    "#]]
    .assert_eq(&plan(&observed).to_string().replace(super::NAME, "~"));
}

#[test]
fn pods_are_created_without_waiting_for_the_gang() {
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
fn a_gang_without_the_pod_group_is_waited_for() {
    let mut observed = super::snapshot("{replicas: 1, gang: [], pods: [{i: 0, name: a}]}");
    let mut gang = (**observed.gang.as_ref().unwrap()).clone();
    gang.spec.podgroups.pop();
    observed.gang = Some(gang.into());
    expect![[r"
        wait: PodGroupNotFound PodGang llm-0 has no podgroup llm-0-decode
    "]]
    .assert_eq(&plan(&observed).to_string());
}

#[test]
fn a_gang_triggers_the_cliques_of_its_changed_pod_groups() {
    let change = |before: Option<&str>, after: Option<&str>| {
        let gang = |listed: &str| gang(&serde_saphyr::from_str(listed).unwrap());
        let delta = Delta { old: before.map(gang), new: after.map(gang) };
        cliques_of_changed_pod_groups(&delta).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let both = change(None, Some("[]"));
    assert!(both.contains("llm-0-decode") && both.contains("llm-0-prefill"), "{both}");
    assert_eq!(change(Some("[]"), None), both);
    assert_eq!(change(Some("[a]"), Some("[a]")), "");
    let one = change(Some("[a]"), Some("[b]"));
    assert!(one.contains("llm-0-decode") && !one.contains("prefill"), "{one}");
}
