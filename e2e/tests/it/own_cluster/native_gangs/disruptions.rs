//! Preemption of gangs, and deletions and edits of their `PodGroup`s.

use std::collections::BTreeSet;

use e2e::TestCluster;
use e2e::poll::poll_until;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::case::{Case, pods_of, set};
use super::{HIGH, LOW};

/// The gang of higher priority needs only the nodes of one clique of the other gang, whose pods are all preempted. The test cordons the
/// other node, so that the preempted gang does not fit. While preempted pods terminate, the scheduler counts them as members of the gang,
/// so it may bind a new pod until the other gang preempts that one, too.
pub(super) async fn a_gang_preempts_a_whole_gang(cluster: &TestCluster) {
    let case = Case::create(cluster, "preemption").await;
    case.add_node("a", 2).await;
    let node = case.add_node("b", 2).await;
    let low = vec![case.clique("a", (2, 2), "a"), case.clique("b", (2, 2), "b")];
    let preempted = uids(&case.create_bound(&with_priority("low", low, LOW), "low-0", 4).await);
    cordon(&case, &node, true).await;

    let high = with_priority("high", vec![case.clique("a", (2, 2), "a")], HIGH);
    case.create_bound(&high, "high-0", 2).await;
    case.assert_priority("high-0", HIGH).await;
    wait_until_replaced(&case, "low-0", &preempted).await;
    case.wait_until_pods_are_unschedulable("low-0", 4).await;

    // One clique fits again, and then the whole gang.
    cordon(&case, &node, false).await;
    case.ns.delete_object::<PodCliqueSet>("high").await;
    case.wait_until_bound("low-0", 4).await;
}

async fn wait_until_replaced(case: &Case, gang: &str, preempted: &BTreeSet<String>) {
    let is_new = |pod: &Pod| pod.uid().is_some_and(|uid| !preempted.contains(&uid));
    let what = "all pods of the preempted gang are replaced";
    case.ns
        .wait_for(what, |state| {
            let pods = pods_of(state, gang);
            pods.len() == preempted.len() && pods.into_iter().all(is_new)
        })
        .await;
}

/// A set whose gang and pods have this priority.
fn with_priority(name: &str, mut cliques: Vec<Value>, priority: &str) -> Value {
    for clique in &mut cliques {
        clique["spec"]["podSpec"]["priorityClassName"] = json!(priority);
    }
    let mut set = set(name, &cliques);
    set["spec"]["template"]["priorityClassName"] = json!(priority);
    set
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(ResourceExt::uid).collect()
}

async fn cordon(case: &Case, node: &str, unschedulable: bool) {
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": unschedulable } }));
    let nodes = Api::<Node>::all(case.ns.client.clone());
    nodes.patch(node, &PatchParams::default(), &patch).await.expect("the node is patched");
}

/// A user deletes the `PodGroup`. Kubernetes deletes it only after its pods, which stay in it.
pub(super) async fn pods_stay_in_a_deleted_pod_group(cluster: &TestCluster) {
    let case = Case::create(cluster, "deletion").await;
    pending_pods_stay(&case).await;
    running_pods_stay(&case).await;
}

async fn pending_pods_stay(case: &Case) {
    case.create_set(&set("pending", &[case.clique("a", (2, 2), "a")])).await;
    let group = case.wait_until_unschedulable("pending-0", 2).await;
    case.delete_pod_group(&group.name_any()).await;
    case.wait_for_condition("pending-0", "False", "NameTerminating", "").await;
    case.assert_never_bound(|_| true).await;
    case.add_node("a", 2).await;
    case.wait_until_pods_are_bound("pending-0", 2).await;
    assert_eq!(case.pod_group("pending-0").await.uid(), group.uid());
}

async fn running_pods_stay(case: &Case) {
    case.add_node("b", 2).await;
    case.create_set(&set("running", &[case.clique("a", (2, 2), "b")])).await;
    let before = uids(&case.wait_until_bound("running-0", 2).await);
    let group = case.pod_group("running-0").await;
    case.delete_pod_group(&group.name_any()).await;
    case.wait_for_condition("running-0", "False", "NameTerminating", "").await;
    assert_eq!(uids(&case.wait_until_pods_are_bound("running-0", 2).await), before);
    assert_eq!(case.pod_group("running-0").await.uid(), group.uid());
}

/// topology-controller adopts a `PodGroup` that lost its owner, and deletes the one of a deleted gang also without a garbage collector.
pub(super) async fn pod_groups_are_adopted_and_deleted(cluster: &TestCluster) {
    let case = Case::create(cluster, "ownership").await;
    case.add_node("a", 2).await;
    let mut set = set("llm", &[case.clique("w", (1, 1), "a")]);
    set["spec"]["template"]["podCliqueScalingGroups"] =
        json!([{ "name": "g", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1 }]);
    case.create_set(&set).await;
    case.wait_until_bound("llm-0-g-0", 1).await;
    let name = case.pod_group("llm-0-g-0").await.name_any();

    let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    case.pod_groups.patch(&name, &PatchParams::default(), &orphan).await.expect("the PodGroup is patched");
    poll_until(async || {
        let group = case.pod_groups.get(&name).await.ok()?;
        (!group.owner_references().is_empty()).then_some(())
    })
    .await;

    cluster.kill("kube-controller-manager").await;
    case.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 1).await;
    poll_until(async || case.pod_groups.get(&name).await.ok()?.metadata.deletion_timestamp).await;
    // The controller manager removes the finalizer of the PodGroup.
    cluster.start_again().await;
    poll_until(async || case.pod_groups.get_opt(&name).await.ok()?.is_none().then_some(())).await;
}
