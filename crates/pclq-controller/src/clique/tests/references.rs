//! The pod references in the gang.

use expect_test::expect;
use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Delta};
use serde_json::json;

use super::{NAME, check, gang, plan, snapshot};
use crate::clique::triggers::cliques_of_changed_pod_groups;
use crate::gang_pods::{later_cliques_after_scaling, pods_of_earlier_groups};

/// The largest number of pods of the gang of the tests, which has two pod groups.
const MAX_PODS: usize = MAX_GANG_SIZE - 2;

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
    let mut observed = snapshot(&format!("{{replicas: 3, gang: [], pods: {pods}}}"));
    observed.pods_of_earlier_groups = MAX_PODS - 1;
    expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-c","namespace":"prod"}]}]
        wait: TooManyPodReferences PodGang llm-0 can have at most 7998 pod references; 2 pods of the clique have no reference
    "#]]
    .assert_eq(&plan(&observed).to_string().replace(NAME, "~"));
}

const EARLIER: &str = "llm-0-prefill";

fn clique(name: &str, replicas: usize) -> PodClique {
    let mut clique = snapshot(&format!("{{replicas: {replicas}}}")).clique;
    clique.metadata.name = Some(name.to_owned());
    clique
}

#[test]
fn the_references_of_other_cliques_do_not_change_those_of_the_clique() {
    let mut observed = snapshot("{replicas: 1, gang: [a], pods: [{i: 0, name: a}]}");
    let mut gang = PodGang::clone(observed.gang.as_ref().expect("a gang"));
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "other".to_owned() };
    gang.spec.podgroups[0].pod_references = vec![reference; MAX_PODS];
    observed.gang = Some(gang.into());
    expect!["nothing to do\n"].assert_eq(&plan(&observed).to_string());
}

#[test]
fn the_desired_pods_of_earlier_groups_get_references_first() {
    let cliques = Cache::from_objects([clique(EARLIER, 7999), clique(NAME, 3)]);
    let gang = gang(&json!([]));
    assert_eq!(pods_of_earlier_groups(&cliques, &gang, EARLIER), 0);
    assert_eq!(pods_of_earlier_groups(&cliques, &gang, NAME), 7999);
    assert_eq!(pods_of_earlier_groups(&Cache::from_objects([]), &gang, NAME), 0, "the earlier clique does not exist");
}

#[test]
fn a_scaled_clique_of_a_gang_above_the_limit_triggers_the_cliques_of_later_groups() {
    let gangs = Cache::from_objects([PodGang::clone(&gang(&json!([])))]);
    let triggered = |scaled: &str, before: Option<usize>, after: Option<usize>| {
        let other = if scaled == NAME { EARLIER } else { NAME };
        let scaled_to = |replicas: Option<usize>| replicas.map(|replicas| clique(scaled, replicas));
        let cliques = Cache::from_objects([clique(other, 10)].into_iter().chain(scaled_to(after)));
        let delta = Delta { old: scaled_to(before).map(Into::into), new: scaled_to(after).map(Into::into) };
        let later = later_cliques_after_scaling(&cliques, &gangs, &delta);
        later.into_iter().map(|clique| clique.name).collect::<Vec<_>>()
    };
    assert_eq!(triggered(EARLIER, Some(1), Some(MAX_PODS - 9)), [NAME]);
    assert_eq!(triggered(EARLIER, Some(MAX_PODS - 9), Some(1)), [NAME], "the gang was above the limit");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS), None), [NAME]);
    assert_eq!(triggered(EARLIER, None, Some(MAX_PODS)), [NAME]);
    assert_eq!(triggered(NAME, Some(1), Some(MAX_PODS)), [""; 0], "its group is the last");
    assert_eq!(triggered(EARLIER, Some(1), Some(MAX_PODS - 10)), [""; 0], "all pods have references");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS), Some(MAX_PODS)), [""; 0], "nothing changed");
}

#[test]
fn each_of_two_cliques_that_were_scaled_in_at_once_triggers_the_later_clique_without_references() {
    let mut gang = PodGang::clone(&gang(&json!([])));
    let last = PodGroup { name: "llm-0-last".to_owned(), ..gang.spec.podgroups[1].clone() };
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() };
    gang.spec.podgroups[1].pod_references = vec![reference; 1000];
    gang.spec.podgroups.push(last);
    let cliques = Cache::from_objects([EARLIER, NAME, "llm-0-last"].map(|name| clique(name, 1000)));
    let gangs = Cache::from_objects([gang]);
    for (name, before) in [(EARLIER, 5000), (NAME, 4000)] {
        let scaled_in = Delta { old: Some(clique(name, before).into()), new: Some(clique(name, 1000).into()) };
        let later = later_cliques_after_scaling(&cliques, &gangs, &scaled_in);
        let later: Vec<_> = later.into_iter().map(|clique| clique.name).collect();
        assert_eq!(later, ["llm-0-last"], "{name}");
    }
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
    let mut observed = snapshot("{replicas: 1, gang: [], pods: [{i: 0, name: a}]}");
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

#[test]
fn a_replaced_pod_group_triggers_the_cliques_of_the_groups_behind_it() {
    let replaced = |at: usize| {
        let mut replaced = PodGang::clone(&gang(&json!([])));
        replaced.spec.podgroups[at].name = "llm-0-new".to_owned();
        let delta = Delta { old: Some(gang(&json!([]))), new: Some(replaced.into()) };
        cliques_of_changed_pod_groups(&delta).into_iter().map(|clique| clique.name).collect::<Vec<_>>()
    };
    assert_eq!(replaced(0), [NAME, "llm-0-new", EARLIER]);
    assert_eq!(replaced(1), [NAME, "llm-0-new"]);
}
