//! Edited labels and owner references are restored on the object itself, without a second object.

use std::collections::BTreeSet;

use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_newer};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// Creates the set and waits until all its pods are ready.
async fn create_set(ns: &Namespace) -> NamespaceState {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is available", |state| state.is_available("llm") && ready_count(state) == 5).await
}

fn ready_count(state: &NamespaceState) -> usize {
    state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count()
}

fn uids(state: &NamespaceState) -> BTreeSet<Option<String>> {
    state.pods.values().map(ResourceExt::uid).collect()
}

/// Edits an object, and waits until the edit is reverted while the set of pods does not change.
async fn is_restored<K>(ns: &Namespace, name: &str, edit: Value, of: impl Fn(&NamespaceState) -> Option<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let state = ns.wait_for("all pods are ready", |state| ready_count(state) == state.pods.len()).await;
    let (pods, before) = (uids(&state), of(&state).cloned().expect("the object exists"));
    let edited = ns.patch::<K>(name, edit).await;
    let is_original = |live: &K| {
        live.uid() == before.uid()
            && live.labels() == before.labels()
            && live.owner_references() == before.owner_references()
    };
    assert!(!is_original(&edited), "the edit changed nothing");
    ns.wait_for("the edit is reverted", |state| {
        assert_eq!(uids(state), pods, "pods were created or deleted");
        of(state).is_some_and(|live| is_original(live) && is_newer(live, &edited))
    })
    .await;
}

fn decode_pod(state: &NamespaceState) -> Option<&Pod> {
    state.pods.values().find(|pod| pod.name_any().starts_with("llm-0-decode-"))
}

#[tokio::test]
async fn labels_of_an_active_pod_are_restored_without_a_second_pod() {
    in_namespace("e2e-ownership-labels", async |ns| {
        let name = decode_pod(&create_set(ns).await).map(ResourceExt::name_any).expect("a pod");
        for (label, value) in [
            ("app.kubernetes.io/managed-by", Value::Null),
            ("grove.io/podclique", Value::Null),
            ("app.kubernetes.io/part-of", json!("edited")),
            ("grove.io/podgang", json!("edited")),
            ("grove.io/podcliqueset-replica-index", json!("9")),
            ("grove.io/podclique-pod-index", json!("9")),
        ] {
            let edit = json!({ "metadata": { "labels": { label: value } } });
            is_restored::<Pod>(ns, &name, edit, |state| state.pods.get(&name)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_orphaned_pod_is_adopted() {
    in_namespace("e2e-ownership-pod", async |ns| {
        let name = decode_pod(&create_set(ns).await).map(ResourceExt::name_any).expect("a pod");
        is_restored::<Pod>(ns, &name, without_owner(), |state| state.pods.get(&name)).await;
    })
    .await;
}

#[tokio::test]
async fn orphaned_children_of_a_set_are_adopted() {
    in_namespace("e2e-ownership-set", async |ns| {
        create_set(ns).await;
        is_restored::<PodClique>(ns, "llm-0-decode", without_owner(), |state| state.cliques.get("llm-0-decode")).await;
        is_restored::<PodGang>(ns, "llm-0", without_owner(), |state| state.gangs.get("llm-0")).await;
        is_restored::<Service>(ns, "llm-0", without_owner(), |state| state.services.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn an_orphaned_scaling_group_its_autoscaler_and_its_cliques_are_adopted() {
    in_namespace("e2e-ownership-group", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("the set is available", |state| state.is_available("m") && ready_count(state) == 14).await;
        // The group is larger than its template: without an owner it keeps its replicas and their gangs.
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 4).await;
        ns.wait_for("the group has four replicas", |state| state.is_available("m") && ready_count(state) == 18).await;
        is_restored::<PodCliqueScalingGroup>(ns, "m-0-g", without_owner(), |state| state.groups.get("m-0-g")).await;
        is_restored::<HorizontalPodAutoscaler>(ns, "m-0-g", without_owner(), |state| state.autoscalers.get("m-0-g"))
            .await;
        is_restored::<PodClique>(ns, "m-0-g-3-d", without_owner(), |state| state.cliques.get("m-0-g-3-d")).await;
    })
    .await;
}

fn without_owner() -> Value {
    json!({ "metadata": { "ownerReferences": null } })
}
