//! Updates of native gangs: the scenarios of plain ones, too little capacity, and the loss of a node.

use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::case::{Case, pods_of, set};
use crate::it::rolling_updates::scenarios::{ALL, Scenario, od_2, od_4, od_8};
use crate::it::rolling_updates::units::{assert_one_at_each_level, record};
use crate::it::rolling_updates::{od_1, ru_7, ru_8};

/// A new image in the template of the only clique.
async fn update(case: &Case, name: &str) {
    let image = json!([{ "op": "replace", "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image",
        "value": "registry.k8s.io/pause:3.9" }]);
    let patch = Patch::Json::<()>(serde_json::from_value(image).expect("a patch"));
    case.ns.api::<PodCliqueSet>().patch(name, &PatchParams::default(), &patch).await.expect("the set is patched");
}

async fn patch_node(case: &Case, node: &str, patch: Value) {
    let nodes = Api::<Node>::all(case.ns.client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.expect("the node is patched");
}

fn is_new(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some("registry.k8s.io/pause:3.9"))
}

fn has_ended(state: &NamespaceState, name: &str) -> bool {
    let status = state.sets.get(name).and_then(|set| set.status.as_ref());
    let progress = status.and_then(|status| status.update_progress.as_ref());
    progress.is_some_and(|progress| progress.update_ended_at.is_some())
        && state.status_is_current()
        && state.active_pods().all(is_new)
}

/// RU-7 to RU-21 and OD-1 to OD-9, all at the same time.
pub(super) async fn the_scenarios_of_plain_gangs(cluster: &TestCluster) {
    let client = cluster.client().await;
    let ns = async |name: &str| Namespace::create(&client, name).await;
    let run = async |scenario: Scenario| scenario.run(&ns(&scenario.namespace()).await).await;
    tokio::join!(
        futures::future::join_all(ALL.map(run)),
        async { Box::pin(ru_7(&ns("e2e-ru-7").await)).await },
        async { Box::pin(ru_8(&ns("e2e-ru-8").await)).await },
        async { Box::pin(od_1(&ns("e2e-od-1").await)).await },
        async { Box::pin(od_2(&ns("e2e-od-2").await)).await },
        async { Box::pin(od_4(&ns("e2e-od-4").await)).await },
        async { Box::pin(od_8(&ns("e2e-od-8").await)).await },
    );
}

/// RU-10: no node has space for a new pod. The update waits, all other pods stay, and it goes on when there is space.
pub(super) async fn an_update_waits_for_capacity(cluster: &TestCluster) {
    let case = &Case::create(cluster, "ru-10").await;
    let history = record(&case.ns).await;
    let node = case.add_node("a", 3).await;
    case.create_bound(&set("llm", &[case.clique("a", (3, 2), "a")]), "llm-0", 3).await;
    patch_node(case, &node, json!({ "spec": { "unschedulable": true } })).await;
    update(case, "llm").await;
    case.ns
        .wait_for_condition("llm", "UpdateInProgress", "Blocked", "PodClique llm-0-a: not scheduled: llm-0-a-")
        .await;
    let state = case.ns.wait_for("one pod is new", |state| state.active_pods().any(is_new)).await;
    assert_eq!(pods_of(&state, "llm-0").iter().filter(|pod| !is_new(pod)).count(), 2, "the other pods stay");
    patch_node(case, &node, json!({ "spec": { "unschedulable": null } })).await;
    case.ns.wait_for("the update has ended", |state| has_ended(state, "llm")).await;
    assert_one_at_each_level("ru-10", &history.changes().await, 1);
}

/// A node disappears in the middle of an update: its taint ends the pods, and then it is deleted.
pub(super) async fn an_update_survives_the_loss_of_a_node(cluster: &TestCluster) {
    let case = &Case::create(cluster, "ru-node-loss").await;
    let lost = case.add_node("a", 4).await;
    case.create_bound(&set("llm", &[case.clique("a", (4, 2), "a")]), "llm-0", 4).await;
    case.add_node("a", 4).await;
    update(case, "llm").await;
    case.ns.wait_for("a pod is new", |state| state.active_pods().any(is_new)).await;
    let taint = json!([{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }]);
    patch_node(case, &lost, json!({ "spec": { "taints": taint } })).await;
    let is_on_lost = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&lost);
    let is_empty = |state: &NamespaceState| !state.pods.values().any(is_on_lost);
    case.ns.wait_for("the node has no pods", is_empty).await;
    let nodes = Api::<Node>::all(case.ns.client.clone());
    nodes.delete(&lost, &DeleteParams::default()).await.expect("the node is deleted");
    let state = case.ns.wait_for("the update has ended", |state| has_ended(state, "llm")).await;
    assert_eq!(
        state.active_pods().count(),
        4,
        "{:?}",
        state.pods.values().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
}
