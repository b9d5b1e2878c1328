//! A user of another namespace writes owner references with the UIDs of a set and of its cliques. Grove ignores them.

use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, in_namespace, metrics, namespace_state::is_ready};
use grove_api_types::labels::{POD_CLIQUE, POD_INDEX};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The reference as a user writes it. The garbage collector does not know this version, so it deletes nothing.
fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let (kind, name, uid) = (K::kind(&()), owner.name_any(), owner.uid());
    json!([{ "apiVersion": "grove.io/v9", "kind": kind, "name": name, "uid": uid, "controller": true }])
}

/// Whether the set is ready, and its gangs have a reference to each pod and to no other.
fn is_ready_alone(state: &NamespaceState, replicas: usize) -> bool {
    fixtures::three_cliques_are_ready(state, replicas) && state.reference_count() == replicas * 5
}

#[tokio::test]
async fn a_pod_of_another_namespace_is_neither_counted_nor_changed() {
    in_namespace("e2e-foreign-pods", async |attacker: &Namespace| {
        in_namespace("e2e-victim-of-pods", async |ns| {
            ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
            let state = ns.wait_for("the set is ready", |state| is_ready_alone(state, 1)).await;
            let owner = reference(&state.cliques["llm-0-prefill"]);
            let spec =
                json!({ "hostname": "x-0", "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
            let foreign = json!({ "metadata": { "name": "foreign", "ownerReferences": owner }, "spec": spec });
            attacker.create_yaml::<Pod>(&foreign.to_string()).await;
            attacker.wait_for("the foreign pod is ready", |state| state.pods.values().any(is_ready)).await;

            poll_until(async || {
                let samples = metrics::scrape(&TestCluster::shared(), "pclq-controller").await;
                samples.get(r#"grove_foreign_owner_references{kind="Pod"}"#).filter(|count| **count > 0.0).map(|_| ())
            })
            .await;
            let deleted = state.pods.values().find(|pod| is_first_prefill(pod)).expect("the pod of index 0").name_any();
            ns.delete_object::<Pod>(&deleted).await;
            let is_replaced = |state: &NamespaceState| is_ready_alone(state, 1) && !state.pods.contains_key(&deleted);
            let state = ns.wait_for("the pod is replaced", is_replaced).await;
            assert_eq!(state.ready_indices("llm-0-prefill"), [0, 1]);
            let pod = attacker.api::<Pod>().get("foreign").await.expect("the foreign pod");
            // The API server adds labels about the topology of the node.
            let is_grove =
                |label: &&String| ["grove.io/", "app.kubernetes.io/"].iter().any(|prefix| label.contains(prefix));
            assert_eq!(pod.labels().keys().find(is_grove), None, "{pod:?}");
            assert!(pod.metadata.deletion_timestamp.is_none(), "{pod:?}");
        })
        .await;
    })
    .await;
}

fn is_first_prefill(pod: &Pod) -> bool {
    let has = |key: &str, value: &str| pod.labels().get(key).is_some_and(|found| found == value);
    has(POD_CLIQUE, "llm-0-prefill") && has(POD_INDEX, "0")
}

#[tokio::test]
async fn objects_of_another_namespace_do_not_block_a_scale_in() {
    in_namespace("e2e-foreign-children", async |attacker: &Namespace| {
        in_namespace("e2e-victim-of-children", async |ns| {
            let set = ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
            ns.wait_for("both replicas are ready", |state| is_ready_alone(state, 2)).await;
            let owner = reference(&set);
            let metadata = |name: &str| json!({ "name": name, "ownerReferences": owner });
            let service = json!({ "metadata": metadata("llm-1"), "spec": { "ports": [{ "port": 80 }] } });
            attacker.create_yaml::<Service>(&service.to_string()).await;
            let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10" }]);
            let spec = json!({ "roleName": "prefill", "replicas": 1, "podSpec": { "containers": containers } });
            let clique = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata("llm-1-prefill"), "spec": spec });
            attacker.create_yaml::<PodClique>(&clique.to_string()).await;
            let both_exist = |state: &NamespaceState| state.cliques.contains_key("llm-1-prefill") && state.services.contains_key("llm-1");
            attacker.wait_for("the foreign objects exist", both_exist).await;
            attacker.delete_object::<PodClique>("llm-1-prefill").await;
            attacker.delete_object::<Service>("llm-1").await;
            attacker.wait_for("the foreign objects are deleted", NamespaceState::is_empty).await;

            ns.scale::<PodCliqueSet>("llm", 1).await;
            let is_scaled_in = |state: &NamespaceState| {
                is_ready_alone(state, 1) && (state.services.len(), state.gangs.len()) == (1, 1)
            };
            ns.wait_for("the second replica is deleted", is_scaled_in).await;
        })
        .await;
    })
    .await;
}
