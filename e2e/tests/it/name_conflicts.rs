//! Names that are taken: what is not ours is left alone, the set says so, and goes on once the name is free.

use std::fmt::Debug;

use e2e::{Namespace, World, in_namespace, sets};
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
        is_left_alone_until_it_goes::<Service>(ns, foreign, "ERR_SYNC_PODCLIQUESET_SERVICE", |world| {
            world.services.get("llm-0")
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_gang_name_conflict_is_reported_and_blocks_only_its_replica() {
    in_namespace("e2e-conflict-gang", async |ns| {
        let foreign = "{metadata: {name: llm-0}, spec: {podgroups: []}}";
        is_left_alone_until_it_goes::<PodGang>(ns, foreign, "ERR_CREATE_OR_PATCH_PODGANG", |world| {
            world.gangs.get("llm-0")
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_clique_name_conflict_is_reported_and_blocks_only_its_replica() {
    in_namespace("e2e-conflict-clique", async |ns| {
        // It has none of the labels that would make anybody create pods for it.
        let foreign = "
            metadata: {name: llm-0-decode}
            spec: {roleName: mine, replicas: 1, podSpec: {containers: [{name: c, image: i}]}}";
        let code = "ERR_CREATE_OR_UPDATE_PODCLIQUE";
        is_left_alone_until_it_goes::<PodClique>(ns, foreign, code, |world| world.cliques.get("llm-0-decode")).await;
    })
    .await;
}

/// A set whose child would have the name of `foreign` says that it is taken, and all its other replicas serve; the child
/// comes once `foreign` is gone.
async fn is_left_alone_until_it_goes<K>(ns: &Namespace, foreign: &str, code: &str, of: fn(&World) -> Option<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let foreign = ns.create_yaml::<K>(foreign).await;
    let (name, uid) = (foreign.name_any(), foreign.uid());
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await;
    let world = ns
        .until("the set names the conflict, and its other replica serves", |world| {
            says_taken(world, &name, code)
                && world.ready_indices("llm-1-frontend") == [0]
                && world.ready_indices("llm-1-prefill") == [0, 1]
                && world.ready_indices("llm-1-decode") == [0, 1]
        })
        .await;
    assert_eq!(of(&world).and_then(ResourceExt::uid), uid);
    ns.remove::<K>(&name).await;
    ns.until("the set has its own, and no error any more", |world| {
        let cleared = |set: &PodCliqueSet| set.status.as_ref().is_some_and(|status| status.last_errors.is_empty());
        world.is_available("llm")
            && world.sets.get("llm").is_some_and(cleared)
            && of(world).is_some_and(|own| own.uid() != uid)
    })
    .await;
}

fn says_taken(world: &World, name: &str, code: &str) -> bool {
    let Some(status) = world.sets.get("llm").and_then(|set| set.status.as_ref()) else { return false };
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available");
    available.is_some_and(|condition| condition.status == "False" && condition.message.contains(name))
        && status.last_errors.iter().any(|error| error.code == code)
}

#[tokio::test]
async fn a_pod_name_conflict_is_avoided_by_the_next_candidate_name() {
    in_namespace("e2e-conflict-pod", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        let world = ns.until("the frontend is there", |world| world.ready_indices("llm-0-frontend") == [0]).await;
        let clique = &world.cliques["llm-0-frontend"];
        let (name, uid) = (PodCliqueName::new(clique.name_any()), clique.uid().expect("a uid"));
        let wanted = PodName::candidates(&name, &uid, 1, None).next().expect("an endless sequence");
        let foreign = format!("{{metadata: {{name: {wanted}}}, spec: {{containers: [{{name: c, image: i}}]}}}}");
        let foreign = ns.create_yaml::<Pod>(&foreign).await;
        ns.scale::<PodClique>("llm-0-frontend", 2).await;
        let world = ns.until("a second frontend", |world| world.ready_indices("llm-0-frontend") == [0, 1]).await;
        assert_eq!(world.pods.get(wanted.as_str()).and_then(ResourceExt::uid), foreign.uid());
    })
    .await;
}
