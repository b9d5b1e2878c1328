//! Grove recreates or restores every managed object that a user deletes or edits.

use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_newer};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde_json::json;

async fn create_set(ns: &Namespace) -> NamespaceState {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is complete", is_complete).await
}

fn is_complete(state: &NamespaceState) -> bool {
    state.is_available("llm")
        && state.services.len() == 1
        && state.gangs.len() == 1
        && state.cliques.len() == 3
        && state.ready_indices("llm-0-frontend") == [0]
        && state.ready_indices("llm-0-prefill") == [0, 1]
        && state.ready_indices("llm-0-decode") == [0, 1]
        && state.gangs.values().flat_map(|gang| &gang.spec.podgroups).all(|group| !group.pod_references.is_empty())
}

async fn is_recreated<K>(ns: &Namespace, name: &str, of: fn(&NamespaceState) -> Option<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let before = of(&create_set(ns).await).and_then(ResourceExt::uid).expect("the object exists");
    ns.delete_object::<K>(name).await;
    ns.wait_for("the object is recreated, and the set is complete", |state| {
        of(state).and_then(ResourceExt::uid).is_some_and(|uid| uid != before) && is_complete(state)
    })
    .await;
}

#[tokio::test]
async fn a_deleted_service_is_recreated() {
    in_namespace("e2e-heal-service", async |ns| {
        is_recreated::<Service>(ns, "llm-0", |state| state.services.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_gang_is_recreated_with_its_pod_references() {
    in_namespace("e2e-heal-gang", async |ns| {
        is_recreated::<PodGang>(ns, "llm-0", |state| state.gangs.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_clique_is_recreated_with_its_pods() {
    in_namespace("e2e-heal-clique", async |ns| {
        is_recreated::<PodClique>(ns, "llm-0-prefill", |state| state.cliques.get("llm-0-prefill")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_is_replaced_at_its_index() {
    in_namespace("e2e-heal-pod", async |ns| {
        let state = create_set(ns).await;
        let at_index_0 = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.hostname.as_deref()) == Some("llm-0-decode-0");
        let pod = state.active_pods().find(at_index_0).expect("the decode pod with index 0");
        let (name, uid) = (pod.name_any(), pod.uid());
        ns.delete_object::<Pod>(&name).await;
        ns.wait_for("another pod has the index", |state| {
            is_complete(state) && state.pods.values().all(|pod| pod.uid() != uid) && state.pods.len() == 5
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn edited_objects_are_restored() {
    in_namespace("e2e-heal-edits", async |ns| {
        create_set(ns).await;
        let edit = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "edited"}}});
        let gang = ns.patch::<PodGang>("llm-0", edit.clone()).await;
        let clique = ns.patch::<PodClique>("llm-0-decode", json!({"spec": {"minAvailable": 2}})).await;
        let labels = json!({"labels": {"app.kubernetes.io/part-of": "edited"}});
        let service = json!({"metadata": labels, "spec": {"publishNotReadyAddresses": false}});
        let service = ns.patch::<Service>("llm-0", service).await;
        ns.wait_for("all edits are reverted", |state| {
            // The watched objects may still be those before the edits, which look the same.
            let is_newer = is_newer(&state.gangs["llm-0"], &gang)
                && is_newer(&state.cliques["llm-0-decode"], &clique)
                && is_newer(&state.services["llm-0"], &service);
            let part_of = |labels: &std::collections::BTreeMap<String, String>| {
                labels.get("app.kubernetes.io/part-of").is_some_and(|set| set == "llm")
            };
            let service = &state.services["llm-0"];
            let publishes = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
            let minimum = state.cliques["llm-0-decode"].spec.min_available == Some(1);
            is_newer && publishes && minimum && part_of(service.labels()) && part_of(state.gangs["llm-0"].labels())
        })
        .await;
    })
    .await;
}
