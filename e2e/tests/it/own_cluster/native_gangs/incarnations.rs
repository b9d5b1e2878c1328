//! The `PodGroup`s of one gang after each other: each incarnation of a gang has a `PodGroup` of its own.

use e2e::{NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
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
