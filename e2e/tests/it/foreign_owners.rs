//! A user of another namespace writes owner references with the UIDs of a set and of its cliques. Grove ignores them.

use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster, in_namespace, metrics, namespace_state::is_ready};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm}
spec:
  replicas: 1
  template:
    cliques:
    - {name: a, spec: {roleName: a, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: main, image: registry.k8s.io/pause:3.10}]}}}
";

/// The reference as a user writes it. The garbage collector does not know this version, so it deletes nothing.
fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let (kind, name, uid) = (K::kind(&()), owner.name_any(), owner.uid());
    json!([{ "apiVersion": "grove.io/v9", "kind": kind, "name": name, "uid": uid, "controller": true }])
}

fn are_ready(state: &NamespaceState, count: usize) -> bool {
    state.pods.len() == count && state.pods.values().all(is_ready) && state.reference_count() == count
}

#[tokio::test]
async fn a_pod_of_another_namespace_is_neither_counted_nor_changed() {
    in_namespace("e2e-foreign-pods", async |attacker: &Namespace| {
        in_namespace("e2e-victim-of-pods", async |ns| {
            ns.create_yaml::<PodCliqueSet>(SET).await;
            let state = ns.wait_for("both pods are ready", |state| are_ready(state, 2)).await;
            let owner = reference(&state.cliques["llm-0-a"]);
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
            let deleted = state.pods.values().find(|pod| index(pod) == Some("0")).expect("the pod of index 0").clone();
            ns.delete_object::<Pod>(&deleted.name_any()).await;
            let is_replaced =
                |state: &NamespaceState| are_ready(state, 2) && !state.pods.contains_key(&deleted.name_any());
            let state = ns.wait_for("the pod is replaced", is_replaced).await;
            assert_eq!(state.ready_indices("llm-0-a"), [0, 1]);
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

fn index(pod: &Pod) -> Option<&str> {
    pod.labels().get("grove.io/podclique-pod-index").map(String::as_str)
}

#[tokio::test]
async fn objects_of_another_namespace_do_not_block_a_scale_in() {
    in_namespace("e2e-foreign-children", async |attacker: &Namespace| {
        in_namespace("e2e-victim-of-children", async |ns| {
            let set = ns.create_yaml::<PodCliqueSet>(&SET.replace("  replicas: 1\n", "  replicas: 2\n")).await;
            ns.wait_for("four pods are ready", |state| are_ready(state, 4)).await;
            let owner = reference(&set);
            let metadata = |name: &str| json!({ "name": name, "ownerReferences": owner });
            let service = json!({ "metadata": metadata("llm-1"), "spec": { "ports": [{ "port": 80 }] } });
            attacker.create_yaml::<Service>(&service.to_string()).await;
            let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10" }]);
            let spec = json!({ "roleName": "a", "replicas": 1, "podSpec": { "containers": containers } });
            let clique = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata("llm-1-a"), "spec": spec });
            attacker.create_yaml::<PodClique>(&clique.to_string()).await;
            let both_exist = |state: &NamespaceState| state.cliques.contains_key("llm-1-a") && state.services.contains_key("llm-1");
            attacker.wait_for("the foreign objects exist", both_exist).await;
            attacker.delete_object::<PodClique>("llm-1-a").await;
            attacker.delete_object::<Service>("llm-1").await;
            attacker.wait_for("the foreign objects are deleted", NamespaceState::is_empty).await;

            ns.scale::<PodCliqueSet>("llm", 1).await;
            let is_scaled_in = |state: &NamespaceState| {
                are_ready(state, 2) && (state.cliques.len(), state.services.len(), state.gangs.len()) == (1, 1, 1)
            };
            ns.wait_for("the second replica is deleted", is_scaled_in).await;
        })
        .await;
    })
    .await;
}
