//! The topology constraints of a gang, and the topology that they refer to.

use e2e::poll::poll_until;
use e2e::{NamespaceState, in_namespace};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{ClusterTopologyBinding, PodCliqueSet};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

const TOPOLOGY: &str = "e2e-topology";
const RACK: &str = "e2e.example/rack";

fn binding() -> ClusterTopologyBinding {
    let levels = json!([{ "domain": "zone", "key": "topology.kubernetes.io/zone" }, { "domain": "rack", "key": RACK }]);
    ClusterTopologyBinding::new(TOPOLOGY, serde_json::from_value(json!({ "levels": levels })).expect("a spec"))
}

/// A set whose pods fit on no node.
fn set() -> PodCliqueSet {
    let pod_spec = json!({ "nodeSelector": { "e2e.example/pool": "none" },
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    let clique = json!({ "name": "a", "spec": { "roleName": "a", "replicas": 2, "podSpec": pod_spec } });
    let constraint = json!({ "topologyName": TOPOLOGY, "pack": { "required": "rack" } });
    let template = json!({ "topologyConstraint": constraint, "cliques": [clique] });
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "llm" },
        "spec": { "replicas": 1, "template": template } });
    serde_json::from_value(set).expect("a set")
}

/// The name of the topology of the gang, and its required key.
fn constraint(gang: &PodGang) -> (Option<&str>, Option<&str>) {
    let name = gang.annotations().get("grove.io/topology-name").map(String::as_str);
    let pack = gang.spec.topology_constraint.as_ref().and_then(|constraint| constraint.pack_constraint.as_ref());
    (name, pack.and_then(|pack| pack.required.as_deref()))
}

/// Whether the gang has the constraint or has none, and the set reports this reason.
fn is_reported(state: &NamespaceState, is_constrained: bool, reason: &str) -> bool {
    let expected = if is_constrained { (Some(TOPOLOGY), Some(RACK)) } else { (None, None) };
    let Some(set) = state.sets.get("llm") else { return false };
    let mut conditions = set.status.iter().flat_map(|status| &status.conditions);
    let is_set_current =
        conditions.any(|condition| condition.type_ == "TopologyLevelsUnavailable" && condition.reason == reason);
    is_set_current && state.gangs.get("llm-0").is_some_and(|gang| constraint(gang) == expected)
}

#[tokio::test]
async fn constraints_follow_the_topology() {
    in_namespace("e2e-topology", async |ns| {
        let topologies = Api::<ClusterTopologyBinding>::all(ns.client.clone());
        topologies.create(&PostParams::default(), &binding()).await.expect("the topology is created");
        // The webhook server may not know the topology yet.
        let sets = ns.api::<PodCliqueSet>();
        poll_until(async || sets.create(&PostParams::default(), &set()).await.ok()).await;
        let with = |state: &NamespaceState| is_reported(state, true, "AllClusterTopologyLevelsAvailable");
        let without = |state: &NamespaceState| is_reported(state, false, "ClusterTopologyNotFound");
        ns.wait_for("the gang has the constraint", with).await;

        topologies.delete(TOPOLOGY, &DeleteParams::default()).await.expect("the topology is deleted");
        ns.wait_for("the gang has no constraint", without).await;
        topologies.create(&PostParams::default(), &binding()).await.expect("the topology is created");
        ns.wait_for("the gang has the constraint again", with).await;

        ns.delete_object::<PodCliqueSet>("llm").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
        topologies.delete(TOPOLOGY, &DeleteParams::default()).await.expect("the topology is deleted");
    })
    .await;
}
