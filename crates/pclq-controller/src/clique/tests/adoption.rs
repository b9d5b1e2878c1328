//! Restored owner references and labels, and the owners of a pod.

use expect_test::expect;
use futures::{FutureExt, StreamExt};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::{Cache, Delta, InformerOptions, UnreadableObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{check, snapshot};
use crate::clique::observe::unreadable_pods;
use crate::clique::triggers::{clique_of_unreadable_pod, owning_cliques};
use crate::pod::is_grove_pod;

#[test]
fn removed_and_changed_grove_labels_are_restored_in_one_patch() {
    let labels = "{grove.io/podgang: null, app.kubernetes.io/part-of: unknown, grove.io/podclique-pod-index: '7', added: by-user}";
    check(
        &format!("{{gang: [a], pods: [{{i: 0, name: a, host: llm-0-decode-0, labels: {labels}}}]}}"),
        &expect![[r#"
            labels: patch Pod ~-a {"metadata":{"labels":{"app.kubernetes.io/part-of":"llm","grove.io/podclique-pod-index":"0","grove.io/podgang":"llm-0"}}}
        "#]],
    );
}

/// A selector of autoscalers finds them, also after an update of Grove.
#[test]
fn the_labels_of_the_pods_that_autoscalers_count_are_restored() {
    let annotations = "{grove.io/podcliqueset-first-pod: 'true', grove.io/podcliquescalinggroup-first-pod-index: '3'}";
    let pods = "[{i: 0, name: a, host: llm-0-decode-0}, {i: 1, name: b, host: llm-0-decode-1}]";
    check(
        &format!("{{replicas: 2, gang: [a, b], annotations: {annotations}, pods: {pods}}}"),
        &expect![[r#"
        labels: patch Pod ~-a {"metadata":{"labels":{"grove.io/podcliquescalinggroup-pod-index":"3","grove.io/podcliqueset-first-pod":"true"}}}
        labels: patch Pod ~-b {"metadata":{"labels":{"grove.io/podcliquescalinggroup-pod-index":"4"}}}
    "#]],
    );
}

#[test]
fn template_labels_and_the_template_hash_of_a_pod_are_not_changed() {
    check(
        "{labels: {team: x}, gang: [a], pods: [{i: 0, name: a, hash: 1old, labels: {team: other}}]}",
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn labels_of_terminating_and_finished_pods_are_not_restored() {
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
fn an_orphaned_pod_is_adopted_and_not_replaced() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 1, name: b}], orphans: [{i: 0, name: a}]}",
        &expect![[r"
        adoption: adopt Pod ~-a
    "]],
    );
}

#[test]
fn an_orphan_beyond_the_replicas_is_adopted_before_it_is_deleted() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a}], orphans: [{i: 1, name: b}, {i: 0, name: c, at: 9, phase: Failed}]}",
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

fn labelled() -> serde_json::Value {
    json!({ "app.kubernetes.io/managed-by": "grove-operator", "grove.io/podclique": "labelled" })
}

#[test]
fn a_grove_pod_is_recognised_by_its_controller_otherwise_by_its_labels() {
    let ours = Some(("grove.io/v1alpha1", "PodClique"));
    assert!(is_grove_pod(&pod(&json!({}), ours)), "labels can be edited");
    assert!(is_grove_pod(&pod(&labelled(), None)));
    assert!(!is_grove_pod(&pod(&json!({}), None)));
    assert!(!is_grove_pod(&pod(&json!({ "grove.io/podclique": "labelled" }), None)), "the pod has no manager");
    assert!(!is_grove_pod(&pod(&labelled(), Some(("apps/v1", "ReplicaSet")))));
    assert!(!is_grove_pod(&pod(&labelled(), Some(("other.io/v1", "PodClique")))));
}

#[test]
fn a_pod_triggers_its_current_and_previous_owner_and_its_labelled_clique() {
    let owned = || Some(pod(&labelled(), Some(("grove.io/v1alpha1", "PodClique"))).into());
    let free = || Some(pod(&labelled(), None).into());
    let names =
        |delta: &Delta<SlimPod>| owning_cliques(delta).into_iter().map(|clique| clique.name).collect::<Vec<_>>();
    assert_eq!(names(&Delta { old: None, new: owned() }), ["owner"]);
    assert_eq!(names(&Delta { old: owned(), new: free() }), ["owner", "labelled"]);
    assert_eq!(names(&Delta { old: free(), new: owned() }), ["owner"]);
    assert_eq!(names(&Delta { old: owned(), new: None }), ["owner"]);
}

#[test]
fn a_pod_that_cannot_be_decoded_triggers_its_owner_otherwise_its_labelled_clique() {
    let triggered = |pod: &SlimPod| clique_of_unreadable_pod(&pod.metadata).map(|clique| clique.to_string());
    let by_owner = triggered(&pod(&labelled(), Some(("grove.io/v1alpha1", "PodClique")))).expect("an owner");
    assert!(by_owner.contains("owner") && by_owner.contains("prod"), "{by_owner}");
    let by_labels = triggered(&pod(&labelled(), None)).expect("a clique");
    assert!(by_labels.contains("labelled") && by_labels.contains("prod"), "{by_labels}");
    assert_eq!(triggered(&pod(&labelled(), Some(("apps/v1", "ReplicaSet")))), None);
    assert_eq!(triggered(&pod(&json!({}), None)), None);
}

#[test]
fn a_pod_that_cannot_be_decoded_triggers_its_clique_when_it_loses_its_label() {
    let (pods, writer) = Cache::<SlimPod>::with_writer(InformerOptions::default());
    let mut unreadable = pods.subscribe_unreadable();
    let mut triggered_after = |labels: &serde_json::Value| {
        let metadata = pod(labels, None).metadata;
        writer.apply_unreadable(UnreadableObject { metadata, reason: "r".to_owned() });
        let changed = std::iter::from_fn(|| unreadable.next().now_or_never().flatten());
        let cliques = changed.filter_map(|pod| clique_of_unreadable_pod(&pod.metadata));
        cliques.map(|clique| clique.name).collect::<Vec<_>>()
    };
    assert_eq!(triggered_after(&labelled()), ["labelled"]);
    assert_eq!(triggered_after(&json!({})), ["labelled"]);
}

#[test]
fn a_pod_without_controller_that_cannot_be_decoded_belongs_to_the_clique_that_its_labels_name() {
    let (pods, writer) = Cache::<SlimPod>::with_writer(InformerOptions::default());
    let clique = snapshot("").state.clique;
    let labels =
        |clique: &str| json!({ "app.kubernetes.io/managed-by": "grove-operator", "grove.io/podclique": clique });
    let unreadable = |name: &str, labels: serde_json::Value| {
        let mut metadata = pod(&labels, None).metadata;
        metadata.name = Some(name.to_owned());
        writer.apply_unreadable(UnreadableObject { metadata, reason: "r".to_owned() });
    };
    unreadable("orphan", labels(super::NAME));
    unreadable("of-another-clique", labels("llm-0-prefill"));
    unreadable("without-labels", json!({}));
    let mut known = pod(&labels(super::NAME), None);
    known.metadata.name = Some("with-earlier-state".to_owned());
    writer.apply(known);
    unreadable("with-earlier-state", labels(super::NAME));
    let found = unreadable_pods(&pods, &clique);
    assert_eq!(found.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect::<Vec<_>>(), ["orphan"]);
}

#[test]
fn a_terminating_pod_without_controller_that_cannot_be_decoded_frees_its_index() {
    let (pods, writer) = Cache::<SlimPod>::with_writer(InformerOptions::default());
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "grove.io/podclique": super::NAME });
    let found_with = |deletion_timestamp: Option<Time>| {
        let mut metadata = pod(&labels, None).metadata;
        metadata.deletion_timestamp = deletion_timestamp;
        writer.apply_unreadable(UnreadableObject { metadata, reason: "r".to_owned() });
        unreadable_pods(&pods, &snapshot("").clique).len()
    };
    assert_eq!(found_with(None), 1);
    assert_eq!(found_with(Some(Time(Timestamp::UNIX_EPOCH))), 0);
}
