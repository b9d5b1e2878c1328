//! The `PodGroup`s of one gang after each other: each incarnation of a gang has a `PodGroup` of its own.

use e2e::{NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::case::{Case, set};
use super::{HIGH, LOW};

/// A set is deleted and created again. The pods of its first gang still occupy GPUs, and only a part of the second gang fits beside them.
pub(super) async fn the_successor_of_a_terminating_gang_is_bound_as_a_whole(cluster: &TestCluster) {
    let case = Case::create(cluster, "successor").await;
    case.add_node("a", 10).await;
    let set = set("llm", &[case.clique("a", (4, 4), "a"), case.clique("b", (4, 4), "a")]);
    let old = case.create_bound(&set, "llm-0", 8).await;
    let first = case.pod_group("llm-0").await.name_any();
    delete_slowly(&case, &old).await;

    case.create_set(&set).await;
    let second = case.next_pod_group("llm-0", &first).await.name_any();
    case.wait_until_unschedulable("llm-0", 8).await;
    case.assert_never_bound(|event| event.pod_group.as_ref() == Some(&second)).await;
    let exist = |state: &NamespaceState| old.iter().all(|pod| state.pods.contains_key(&pod.name_any()));
    case.ns.wait_for("the old pods still exist", exist).await;

    case.ns.remove_finalizers(&old).await;
    case.wait_until_bound("llm-0", 8).await;
    assert_eq!(case.pod_group("llm-0").await.name_any(), second);
}

/// Deletes the set. Its pods are terminating until their finalizers are removed.
async fn delete_slowly(case: &Case, pods: &[Pod]) {
    case.ns.add_finalizers(pods).await;
    case.ns.delete_object::<PodCliqueSet>("llm").await;
    let what = "the set is deleted, and its pods are terminating";
    case.ns.wait_for(what, |state| state.sets.is_empty() && state.active_pods().next().is_none()).await;
}

/// The pods that a clique gets while its gang runs belong to the same `PodGroup`.
pub(super) async fn a_clique_that_scales_out_stays_in_its_pod_group(cluster: &TestCluster) {
    let case = Case::create(cluster, "scale").await;
    case.add_node("a", 6).await;
    case.create_set(&set("llm", &[case.clique("a", (2, 2), "a")])).await;
    case.wait_until_bound("llm-0", 2).await;
    let group = case.pod_group("llm-0").await;
    case.ns.scale::<PodClique>("llm-0-a", 6).await;
    case.wait_until_bound("llm-0", 6).await;
    assert_eq!(case.pod_group("llm-0").await.uid(), group.uid());
}

/// While no pod is bound, another priority takes effect at once. Otherwise it takes effect when the gang restarts.
pub(super) async fn another_priority_begins_the_next_incarnation(cluster: &TestCluster) {
    let case = Case::create(cluster, "incarnations").await;
    let second = change_before_binding(&case).await;
    change_after_binding(&case, &second).await;
}

async fn change_before_binding(case: &Case) -> DynamicObject {
    let mut set = set("llm", &[case.clique("a", (2, 2), "a")]);
    set["spec"]["template"]["priorityClassName"] = json!(LOW);
    case.create_set(&set).await;
    let first = case.wait_until_unschedulable("llm-0", 2).await;
    case.assert_priority("llm-0", LOW).await;

    patch_priority(case, HIGH).await;
    let second = case.next_pod_group("llm-0", &first.name_any()).await;
    case.assert_priority("llm-0", HIGH).await;
    case.add_node("a", 2).await;
    case.wait_until_bound("llm-0", 2).await;
    second
}

async fn change_after_binding(case: &Case, second: &DynamicObject) {
    patch_priority(case, LOW).await;
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "restart").await;
    assert_eq!(case.pod_group("llm-0").await.uid(), second.uid());

    // Without cliques, the gang restarts.
    case.ns.delete_object::<PodClique>("llm-0-a").await;
    case.next_pod_group("llm-0", &second.name_any()).await;
    case.assert_priority("llm-0", LOW).await;
    case.wait_until_bound("llm-0", 2).await;
}

async fn patch_priority(case: &Case, priority: &str) {
    let patch = json!({ "spec": { "template": { "priorityClassName": priority } } });
    case.ns.patch::<PodCliqueSet>("llm", patch).await;
}

/// The terminating pods of a scaled gang would count as pods of its `PodGroup`. So a part of its new pods would be bound once a part of the old ones has
/// ended.
pub(super) async fn an_update_begins_the_next_incarnation_of_a_scaled_gang(cluster: &TestCluster) {
    let case = Case::create(cluster, "update").await;
    case.add_node("a", 4).await;
    let mut set = set("llm", &[case.clique("w", (2, 2), "a")]);
    set["spec"]["template"]["podCliqueScalingGroups"] =
        json!([{ "name": "g", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1 }]);
    case.create_bound(&set, "llm-0", 2).await;
    let old = case.wait_until_bound("llm-0-g-0", 2).await;
    let (base, first) = (case.pod_group("llm-0").await, case.pod_group("llm-0-g-0").await.name_any());
    case.ns.add_finalizers(&old).await;
    change_labels(&case).await;
    bound_after_the_old_pods(&case, &first, &old).await;
    assert_eq!(case.pod_group("llm-0").await.uid(), base.uid(), "the base gang has not restarted");
    assert_updated(&case).await;
}

/// The new pods of the scaled gang, which has had the `PodGroup` `first`, are bound after the last old pod has ended.
async fn bound_after_the_old_pods(case: &Case, first: &str, old: &[Pod]) {
    let second = case.next_pod_group("llm-0-g-0", first).await.name_any();
    wait_until_terminating(case, old).await;
    case.ns.remove_finalizers(&old[..1]).await;
    case.wait_until_unschedulable("llm-0-g-0", 2).await;
    case.assert_never_bound(|event| event.pod_group.as_ref() == Some(&second)).await;
    case.ns.remove_finalizers(&old[1..]).await;
    case.wait_until_bound("llm-0-g-0", 2).await;
    assert_eq!(case.pod_group("llm-0-g-0").await.name_any(), second, "one incarnation for the update");
}

/// Changes the template of the first clique.
pub(super) async fn change_labels(case: &Case) {
    let labels = json!([{ "op": "add", "path": "/spec/template/cliques/0/labels", "value": { "team": "new" } }]);
    let patch = Patch::Json::<()>(serde_json::from_value(labels).expect("a patch"));
    let patched = case.ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
    patched.expect("the template is patched");
}

async fn wait_until_terminating(case: &Case, pods: &[Pod]) {
    let are_terminating = |state: &NamespaceState| {
        pods.iter()
            .all(|pod| state.pods.get(&pod.name_any()).is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()))
    };
    case.ns.wait_for("the old pods of the scaled gang are terminating", are_terminating).await;
}

/// Waits until the update has ended.
pub(super) async fn wait_until_updated(case: &Case) -> NamespaceState {
    let has_ended = |state: &NamespaceState| {
        let status = state.sets.get("llm").and_then(|set| set.status.as_ref());
        let progress = status.and_then(|status| status.update_progress.as_ref());
        progress.is_some_and(|progress| progress.update_ended_at.is_some())
    };
    case.ns.wait_for("the update has ended", has_ended).await
}

async fn assert_updated(case: &Case) {
    let state = wait_until_updated(case).await;
    let new = |pod: &Pod| pod.labels().get("team").map(String::as_str) == Some("new");
    assert!(state.active_pods().all(new), "all pods are new");
}
