//! Constraints that change, and a gang that restarts.

use std::collections::BTreeSet;

use e2e::binding_log::is_bound;
use e2e::{NamespaceState, TestCluster};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::case::{Case, pods_of};
use super::{
    Nodes, clique, constrained_set, constraint, create_set, delete_set, identities, key, packed, pod_group_key,
};

/// The old pods occupy a whole rack while they terminate. The new gang is bound in another one before they end.
pub(super) async fn a_restarted_gang_does_not_follow_its_terminating_pods(cluster: &TestCluster) {
    let case = Case::create(cluster, "restart").await;
    let old = create_pods_with_finalizers(&case).await;
    let first = case.pod_group("llm-0").await.name_any();
    delete_cliques(cluster, &case).await;
    case.next_pod_group("llm-0", &first).await;
    let new = case.wait_until_bound("llm-0", 4).await;
    let nodes = Nodes::list(&case.ns.client).await;
    let [old_rack, new_rack] = [&old, &new].map(|pods| nodes.domains(pods, "rack"));
    assert_eq!((old_rack.len(), new_rack.len()), (1, 1));
    assert!(old_rack.is_disjoint(&new_rack), "{old_rack:?} {new_rack:?}");
    let state = case.ns.wait_for("the new gang exists", |state| state.gangs.contains_key("llm-0")).await;
    let is_old = |pod: &&Pod| state.pods.get(&pod.name_any()).is_some_and(is_terminating);
    assert_eq!(old.iter().filter(is_old).count(), 4, "the old pods are terminating");
    case.ns.remove_finalizers(&old).await;
    delete_set(&case).await;
}

/// Creates a set with two cliques. Their pods are terminating until the test removes their finalizers.
async fn create_pods_with_finalizers(case: &Case) -> Vec<Pod> {
    let cliques = ["a", "b"].map(|name| clique(name, (2, 2), 8));
    create_set(case, &constrained_set(Some(constraint("required", "rack")), &cliques)).await;
    let pods = case.wait_until_bound("llm-0", 4).await;
    case.ns.add_finalizers(&pods).await;
    pods
}

/// Deletes both cliques of the gang. pcs-controller would create the first one again before it receives the event of the second deletion, so it
/// does not run meanwhile.
async fn delete_cliques(cluster: &TestCluster, case: &Case) {
    cluster.stop("pcs-controller").await;
    for clique in ["llm-0-a", "llm-0-b"] {
        case.ns.delete_object::<PodClique>(clique).await;
    }
    case.ns.wait_for("the cliques are deleted", |state| state.cliques.is_empty()).await;
    cluster.start_again().await;
}

/// Five pods that need a node each do not fit into a rack, and fit into a block.
pub(super) async fn other_constraints_begin_the_next_incarnation(cluster: &TestCluster) {
    let case = Case::create(cluster, "next").await;
    create_set(&case, &constrained_set(Some(constraint("required", "rack")), &[clique("a", (5, 5), 8)])).await;
    let first = case.wait_until_unschedulable("llm-0", 5).await;
    assert_eq!(pod_group_key(&first), Some(key("rack")));
    let pods = change_before_binding(&case, &first.name_any()).await;
    change_after_binding(&case, &pods).await;
    delete_set(&case).await;
}

async fn change_before_binding(case: &Case, first: &str) -> Vec<Pod> {
    patch(case, &json!({ "topologyConstraint": constraint("required", "block") })).await;
    let second = case.next_pod_group("llm-0", first).await;
    assert_eq!(pod_group_key(&second), Some(key("block")));
    let pods = case.wait_until_bound("llm-0", 5).await;
    let nodes = Nodes::list(&case.ns.client).await;
    assert_eq!(nodes.domains(&pods, "block").len(), 1);
    assert!(nodes.domains(&pods, "rack").len() > 1);
    pods
}

async fn change_after_binding(case: &Case, pods: &[Pod]) {
    let second = case.pod_group("llm-0").await.uid();
    patch(case, &json!({ "topologyConstraint": constraint("required", "zone") })).await;
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "take effect when no pod of the gang is bound").await;
    assert_eq!(case.pod_group("llm-0").await.uid(), second);
    assert_eq!(identities(&case.wait_until_bound("llm-0", 5).await), identities(pods));
}

/// A clique is scaled to zero, so a replaced pod of another clique belongs to a successor of their `PodGroup`. It is in the rack of the others.
pub(super) async fn a_successor_is_in_the_domain_of_its_incarnation(cluster: &TestCluster) {
    let case = Case::create(cluster, "domain").await;
    let cliques = [clique("a", (2, 2), 1), clique("b", (2, 2), 1)];
    create_set(&case, &constrained_set(Some(constraint("required", "rack")), &cliques)).await;
    let before = case.wait_until_bound("llm-0", 4).await;
    let first = case.pod_group("llm-0").await.name_any();
    case.ns.scale::<PodClique>("llm-0-b", 0).await;
    case.ns.wait_for("one clique has pods", |state| state.pods.len() == 2).await;
    let replaced = before.iter().find(|pod| pod.name_any().starts_with("llm-0-a")).expect("a pod").name_any();
    case.ns.delete_object::<Pod>(&replaced).await;
    let second = case.next_pod_group("llm-0", &first).await;
    assert_eq!(pod_group_key(&second), Some(key("rack")));
    let are_bound = |state: &NamespaceState| {
        let pods = pods_of(state, "llm-0");
        pods.len() == 2 && !state.pods.contains_key(&replaced) && pods.into_iter().all(is_bound)
    };
    let state = case.ns.wait_for("the new pod is bound", are_bound).await;
    let pods: Vec<Pod> = pods_of(&state, "llm-0").into_iter().cloned().collect();
    assert_eq!(Nodes::list(&case.ns.client).await.domains(&pods, "rack").len(), 1);
    delete_set(&case).await;
}

/// One pod of the clique is bound, and the other one does not fit into its rack.
pub(super) async fn only_pending_pods_follow_other_constraints(cluster: &TestCluster) {
    let case = Case::create(cluster, "pending").await;
    for rack in ["pending-a", "pending-b"] {
        case.add_node_in("p", 1, &[(key("block"), "pending"), (key("rack"), rack)]).await;
    }
    case.add_node_in("q", 1, &[]).await;
    let cliques = |level: &str| [packed(case.clique("a", (2, 1), "p"), level), case.clique("b", (1, 1), "q")];
    create_set(&case, &constrained_set(None, &cliques("rack"))).await;
    let state = case
        .ns
        .wait_for("a pod of the clique is bound, and the other one is unschedulable", |state| {
            let (bound, pending) = of_clique(pods_of(state, "llm-0"));
            bound.len() == 1 && pending.iter().any(|pod| is_unschedulable(pod))
        })
        .await;
    let (bound, pending) = of_clique(pods_of(&state, "llm-0"));
    let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.name_any()).collect::<BTreeSet<_>>();
    let (bound, pending) = (names(&bound), names(&pending));

    patch(&case, &json!({ "cliques": cliques("block") })).await;
    let pods = case.wait_until_bound("llm-0", 3).await;
    let all: BTreeSet<String> = pods.iter().map(ResourceExt::name_any).collect();
    assert!(all.is_superset(&bound) && all.is_disjoint(&pending), "{all:?} {bound:?} {pending:?}");
    delete_set(&case).await;
}

/// The bound and the other pods of the clique `a`.
fn of_clique(pods: Vec<&Pod>) -> (Vec<&Pod>, Vec<&Pod>) {
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name == "llm-0-a");
    pods.into_iter().filter(of_clique).partition(|pod| is_bound(pod))
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|condition| condition.type_ == "PodScheduled");
    scheduled.any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

/// Patches the template of the set.
async fn patch(case: &Case, template: &Value) {
    case.ns.patch::<PodCliqueSet>("llm", json!({ "spec": { "template": template } })).await;
}
