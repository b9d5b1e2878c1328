//! Cliques that users scale below their minimum, also to zero: no other pod of the gang waits for unwanted pods.

use std::collections::BTreeSet;

use e2e::binding_log::{is_bound, pod_group};
use e2e::{NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::case::{Case, pods_of, set};
use super::{HIGH, LOW};

const GANG: &str = "llm-0";

/// An autoscaler takes the workers to zero, and the frontend is replaced. Then the workers come back.
pub(super) async fn a_replaced_pod_is_bound_while_other_cliques_are_at_zero(cluster: &TestCluster) {
    let case = Case::create(cluster, "zero").await;
    case.add_node("a", 3).await;
    let workers = ["prefill", "decode"];
    let cliques = ["frontend", "prefill", "decode"].map(|name| case.clique(name, (1, 1), "a"));
    case.create_bound(&set("llm", &cliques), GANG, 3).await;
    for worker in workers {
        case.ns.scale::<PodClique>(&format!("llm-0-{worker}"), 0).await;
    }
    wait_for_pods(&case, 1).await;
    case.wait_for_condition(GANG, "True", "DefaultScheduler", "minimums of the gang have changed").await;
    delete_pods(&case, "frontend", 1).await;
    case.wait_until_bound(GANG, 1).await;
    assert_eq!(min_count(&case).await, 1, "the next incarnation demands what is wanted now");
    for worker in workers {
        case.ns.scale::<PodClique>(&format!("llm-0-{worker}"), 1).await;
    }
    wait_for_pods(&case, 3).await;
}

/// One of two frontends stays bound, so the incarnation continues. The workers come back as a whole.
pub(super) async fn pods_beside_bound_ones_are_bound_together(cluster: &TestCluster) {
    let case = Case::create(cluster, "beside").await;
    case.add_node("a", 2).await;
    let node = case.add_node("b", 2).await;
    let cliques = [case.clique("frontend", (2, 2), "a"), case.clique("worker", (2, 2), "b")];
    let pods = case.create_bound(&set("llm", &cliques), GANG, 4).await;
    let first = case.pod_group(GANG).await.name_any();
    case.ns.scale::<PodClique>("llm-0-worker", 0).await;
    wait_for_pods(&case, 2).await;
    delete_pods(&case, "frontend", 1).await;
    let frontends = uids(&wait_for_pods(&case, 2).await);
    assert_eq!(frontends.intersection(&uids(&pods)).count(), 1, "the other frontend stays");
    let second = successor_of(&case, &first).await;
    workers_return_together(&case, &node, &second).await;
    let all = uids(&wait_for_pods(&case, 4).await);
    assert!(all.is_superset(&frontends), "no frontend is replaced");
}

/// Waits until the gang has a successor of its first `PodGroup`, for one pod.
async fn successor_of(case: &Case, first: &str) -> String {
    let second = case.next_pod_group(GANG, first).await.name_any();
    assert!(second.starts_with(&format!("{first}.")), "{second} belongs to another incarnation than {first}");
    assert_eq!(min_count(case).await, 1);
    case.wait_for_condition(GANG, "True", "DefaultScheduler", "the others stay in an earlier one").await;
    second
}

/// Only one of two workers fits at first.
async fn workers_return_together(case: &Case, node: &str, second: &str) {
    let nodes = Api::<Node>::all(case.ns.client.clone());
    nodes.delete(node, &DeleteParams::default()).await.expect("the node is deleted");
    case.add_node("b", 1).await;
    case.ns.scale::<PodClique>("llm-0-worker", 2).await;
    let third = case.next_pod_group(GANG, second).await.name_any();
    assert_eq!(min_count(case).await, 2, "the workers are demanded together");
    let demands = format!("PodGroup {third} demands 2 pods; the scheduler reports: ");
    case.ns.wait_for_condition("llm-0-worker", "Available", "MinimumReplicasUnavailable", &demands).await;
    case.assert_never_bound(|event| event.pod_group.as_ref() == Some(&third)).await;
    case.add_node("b", 1).await;
}

/// A surplus pod and a core pod of another clique are replaced while a clique is below its minimum.
pub(super) async fn a_clique_below_its_minimum_holds_up_no_other_pod(cluster: &TestCluster) {
    let case = Case::create(cluster, "below").await;
    case.add_node("a", 6).await;
    let cliques = [case.clique("frontend", (2, 1), "a"), case.clique("worker", (4, 4), "a")];
    case.create_bound(&set("llm", &cliques), GANG, 6).await;
    case.ns.scale::<PodClique>("llm-0-worker", 2).await;
    wait_for_pods(&case, 4).await;
    for replaced in [1, 2] {
        delete_pods(&case, "frontend", replaced).await;
        wait_for_pods(&case, 4).await;
    }
    case.ns.scale::<PodClique>("llm-0-worker", 4).await;
    wait_for_pods(&case, 6).await;
}

/// The priority is postponed while a pod is bound. No clique is deleted.
pub(super) async fn a_postponed_priority_takes_effect_once_no_pod_is_bound(cluster: &TestCluster) {
    let case = Case::create(cluster, "postponed").await;
    let node = case.add_node("a", 2).await;
    let first = create_with_low_priority(&case).await;
    case.ns.patch::<PodCliqueSet>("llm", json!({ "spec": { "template": { "priorityClassName": HIGH } } })).await;
    case.wait_for_condition(GANG, "True", "DefaultScheduler", "the priority of the gang has changed").await;
    delete_pods(&case, "a", 1).await;
    wait_for_pods(&case, 2).await;
    assert_eq!(case.pod_group(GANG).await.name_any(), first, "the other pod is bound");

    replace_all(&case, &node).await;
    case.next_pod_group(GANG, &first).await;
    case.assert_priority(GANG, HIGH).await;
    set_unschedulable(&case, &node, false).await;
    case.wait_until_bound(GANG, 2).await;
}

/// Returns the name of the `PodGroup`.
async fn create_with_low_priority(case: &Case) -> String {
    let mut set = set("llm", &[case.clique("a", (1, 1), "a"), case.clique("b", (1, 1), "a")]);
    set["spec"]["template"]["priorityClassName"] = json!(LOW);
    case.create_bound(&set, GANG, 2).await;
    case.pod_group(GANG).await.name_any()
}

/// The new pods cannot be bound, so no pod is bound in the end.
async fn replace_all(case: &Case, node: &str) {
    set_unschedulable(case, node, true).await;
    delete_pods(case, "a", 1).await;
    delete_pods(case, "b", 1).await;
}

async fn set_unschedulable(case: &Case, node: &str, unschedulable: bool) {
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": unschedulable } }));
    let nodes = Api::<Node>::all(case.ns.client.clone());
    nodes.patch(node, &PatchParams::default(), &patch).await.expect("the node is patched");
}

/// Waits until the gang has this number of pods, and all of them are bound. Their `PodGroup`s are of one incarnation.
async fn wait_for_pods(case: &Case, count: usize) -> Vec<Pod> {
    let is_bound_in_incarnation = |state: &NamespaceState| {
        let pods = pods_of(state, GANG);
        let incarnation = |pod: &&Pod| pod_group(pod).and_then(|name| name.split('.').next().map(str::to_owned));
        let incarnations: BTreeSet<_> = pods.iter().map(incarnation).collect();
        pods.len() == count
            && state.pods.len() == count
            && pods.iter().all(|pod| is_bound(pod))
            && incarnations.len() == 1
    };
    let state = case.ns.wait_for(&format!("{count} pods of one incarnation are bound"), is_bound_in_incarnation).await;
    pods_of(&state, GANG).into_iter().cloned().collect()
}

/// Deletes this number of pods of a clique, as an eviction does, and waits until they are deleted.
async fn delete_pods(case: &Case, clique: &str, count: usize) {
    let label = format!("llm-0-{clique}");
    let state = case.ns.wait_for("the gang has pods", |state| !pods_of(state, GANG).is_empty()).await;
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique") == Some(&label);
    let names: Vec<_> =
        pods_of(&state, GANG).into_iter().filter(of_clique).take(count).map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), count);
    for name in &names {
        case.ns.delete_object::<Pod>(name).await;
    }
    case.ns.wait_for("the pods are deleted", |state| names.iter().all(|name| !state.pods.contains_key(name))).await;
}

/// The minimum of the `PodGroup` that the gang names.
async fn min_count(case: &Case) -> i64 {
    let group = case.pod_group(GANG).await;
    group.data["spec"]["schedulingPolicy"]["gang"]["minCount"].as_i64().expect("a minimum")
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(ResourceExt::uid).collect()
}
