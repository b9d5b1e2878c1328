//! Owners and labels that were edited away.

use expect_test::expect;
use grove_controller::slim::SlimPod;
use grove_runtime::caches::Delta;
use serde_json::json;

use super::check;
use crate::clique::observe::{concerned, matters};

#[test]
fn lost_and_changed_labels_of_groves_own_come_back_in_one_patch() {
    let labels = "{grove.io/podgang: null, app.kubernetes.io/part-of: nobody, grove.io/podclique-pod-index: '7', added: by-user}";
    check(
        &format!("{{gang: [a], pods: [{{i: 0, name: a, host: llm-0-decode-0, labels: {labels}}}]}}"),
        &expect![[r#"
            labels: patch Pod ~-a {"metadata":{"labels":{"app.kubernetes.io/part-of":"llm","grove.io/podclique-pod-index":"0","grove.io/podgang":"llm-0"}}}
        "#]],
    );
}

#[test]
fn the_labels_of_the_users_template_and_the_hash_of_the_pods_own_stay_as_they_are() {
    check(
        "{labels: {team: x}, gang: [a], pods: [{i: 0, name: a, hash: 1old, labels: {team: other}}]}",
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn a_pod_that_is_leaving_or_has_ended_gets_no_labels() {
    let lost = "labels: {grove.io/podgang: null}";
    check(
        &format!(
            "{{gang: [], replicas: 0, pods: [{{i: 0, name: a, terminating: true, {lost}}}, {{i: 1, name: b, phase: Failed, {lost}}}]}}"
        ),
        &expect![[r"
            pods: delete Pod ~-b
        "]],
    );
}

#[test]
fn a_pod_without_an_owner_is_adopted_and_none_is_made_in_its_place() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 1, name: b}], unowned: [{i: 0, name: a}]}",
        &expect![[r"
        adoption: adopt Pod ~-a
    "]],
    );
}

#[test]
fn a_pod_too_many_without_an_owner_is_adopted_before_it_is_deleted() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a}], unowned: [{i: 1, name: b}, {i: 0, name: c, at: 9, phase: Failed}]}",
        &expect![[r"
            adoption: adopt Pod ~-b
            adoption: adopt Pod ~-c
        "]],
    );
}

fn pod(labels: &serde_json::Value, owner: Option<(&str, &str)>) -> SlimPod {
    let owner = owner.map(|(version, kind)| {
        json!([{ "apiVersion": version, "kind": kind, "name": "owner", "uid": "u", "controller": true }])
    });
    let metadata = json!({ "name": "p", "namespace": "prod", "labels": labels, "ownerReferences": owner });
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

fn claiming() -> serde_json::Value {
    json!({ "app.kubernetes.io/managed-by": "grove-operator", "grove.io/podclique": "claimed" })
}

#[test]
fn a_pod_matters_by_its_controller_else_by_its_labels() {
    let ours = Some(("grove.io/v1alpha1", "PodClique"));
    assert!(matters(&pod(&json!({}), ours)), "labels can be edited");
    assert!(matters(&pod(&claiming(), None)));
    assert!(!matters(&pod(&json!({}), None)));
    assert!(!matters(&pod(&json!({ "grove.io/podclique": "claimed" }), None)), "managed by nobody");
    assert!(!matters(&pod(&claiming(), Some(("apps/v1", "ReplicaSet")))));
    assert!(!matters(&pod(&claiming(), Some(("other.io/v1", "PodClique")))));
}

#[test]
fn a_pod_that_changes_hands_wakes_all_whom_it_concerns() {
    let owned = || Some(pod(&claiming(), Some(("grove.io/v1alpha1", "PodClique"))).into());
    let free = || Some(pod(&claiming(), None).into());
    let names = |delta: &Delta<SlimPod>| concerned(delta).into_iter().map(|clique| clique.name).collect::<Vec<_>>();
    assert_eq!(names(&Delta { old: None, new: owned() }), ["owner"]);
    assert_eq!(names(&Delta { old: owned(), new: free() }), ["owner", "claimed"]);
    assert_eq!(names(&Delta { old: free(), new: owned() }), ["owner"]);
    assert_eq!(names(&Delta { old: owned(), new: None }), ["owner"]);
}
