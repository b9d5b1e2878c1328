//! Name conflicts: Grove does not touch an object of another owner, reports the conflict, and creates its own object once
//! the name is free.

use std::fmt::Debug;

use e2e::{Namespace, NamespaceState, fixtures, in_namespace};
use grove_api_types::names::{PodCliqueName, PodName};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[tokio::test]
async fn a_service_name_conflict_is_reported_and_blocks_only_its_replica() {
    in_namespace("e2e-conflict-service", async |ns| {
        let foreign = "{metadata: {name: llm-0}, spec: {ports: [{port: 80}]}}";
        conflict_is_reported_until_the_name_is_free::<Service>(ns, foreign, "ERR_SYNC_PODCLIQUESET_SERVICE", |state| {
            state.services.get("llm-0")
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_gang_name_conflict_is_reported_and_blocks_only_its_replica() {
    in_namespace("e2e-conflict-gang", async |ns| {
        let foreign = "{metadata: {name: llm-0}, spec: {podgroups: []}}";
        conflict_is_reported_until_the_name_is_free::<PodGang>(ns, foreign, "ERR_CREATE_OR_PATCH_PODGANG", |state| {
            state.gangs.get("llm-0")
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_clique_name_conflict_is_reported_and_blocks_only_its_replica() {
    in_namespace("e2e-conflict-clique", async |ns| {
        // Without Grove's labels no controller creates pods for this clique.
        let foreign = "
            metadata: {name: llm-0-decode}
            spec: {roleName: mine, replicas: 1, podSpec: {containers: [{name: c, image: i}]}}";
        let code = "ERR_CREATE_OR_UPDATE_PODCLIQUE";
        conflict_is_reported_until_the_name_is_free::<PodClique>(ns, foreign, code, |state| {
            state.cliques.get("llm-0-decode")
        })
        .await;
    })
    .await;
}

/// A set with a child named like `foreign` reports a name conflict, and its other replica becomes ready. After the deletion
/// of `foreign` the set creates its child.
async fn conflict_is_reported_until_the_name_is_free<K>(
    ns: &Namespace,
    foreign: &str,
    code: &str,
    of: fn(&NamespaceState) -> Option<&K>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let foreign = ns.create_yaml::<K>(foreign).await;
    let (name, uid) = (foreign.name_any(), foreign.uid());
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
    let state = ns
        .wait_for("the set reports the conflict, and its other replica is ready", |state| {
            reports_conflict(state, &name, code)
                && state.ready_indices("llm-1-frontend") == [0]
                && state.ready_indices("llm-1-prefill") == [0, 1]
                && state.ready_indices("llm-1-decode") == [0, 1]
        })
        .await;
    assert_eq!(of(&state).and_then(ResourceExt::uid), uid);
    ns.delete_object::<K>(&name).await;
    ns.wait_for("the set is available with its own child and reports no error", |state| {
        let has_no_error = |set: &PodCliqueSet| set.status.as_ref().is_some_and(|status| status.last_errors.is_empty());
        state.is_available("llm")
            && state.sets.get("llm").is_some_and(has_no_error)
            && of(state).is_some_and(|child| child.uid() != uid)
    })
    .await;
}

fn reports_conflict(state: &NamespaceState, name: &str, code: &str) -> bool {
    let Some(status) = state.sets.get("llm").and_then(|set| set.status.as_ref()) else { return false };
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available");
    available.is_some_and(|condition| condition.status == "False" && condition.message.contains(name))
        && status.last_errors.iter().any(|error| error.code == code)
}

#[tokio::test]
async fn a_pod_name_conflict_is_avoided_by_the_next_candidate_name() {
    in_namespace("e2e-conflict-pod", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        let state = ns.wait_for("the frontend is ready", |state| state.ready_indices("llm-0-frontend") == [0]).await;
        let clique = &state.cliques["llm-0-frontend"];
        let (name, uid) = (PodCliqueName::new(clique.name_any()), clique.uid().expect("a uid"));
        let first_candidate = PodName::candidates(&name, &uid, 1, None).next().expect("an endless sequence");
        let foreign =
            format!("{{metadata: {{name: {first_candidate}}}, spec: {{containers: [{{name: c, image: i}}]}}}}");
        let foreign = ns.create_yaml::<Pod>(&foreign).await;
        ns.scale::<PodClique>("llm-0-frontend", 2).await;
        let state =
            ns.wait_for("a second frontend is ready", |state| state.ready_indices("llm-0-frontend") == [0, 1]).await;
        assert_eq!(state.pods.get(first_candidate.as_str()).and_then(ResourceExt::uid), foreign.uid());
    })
    .await;
}
