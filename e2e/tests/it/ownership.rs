//! Whose an object is can be edited away, and comes back on the object itself: nothing is made in its place.

use std::collections::BTreeSet;

use e2e::{Namespace, World, in_namespace, sets, world::is_later};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The set with all its pods ready.
async fn settled(ns: &Namespace) -> World {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set is there", |world| world.is_available("llm") && ready(world) == 5).await
}

fn ready(world: &World) -> usize {
    world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count()
}

fn uids(world: &World) -> BTreeSet<Option<String>> {
    world.pods.values().map(ResourceExt::uid).collect()
}

/// Edits an object, and waits until it is as it was while the pods are always the ones that they were.
async fn comes_back<K>(ns: &Namespace, name: &str, edit: Value, of: impl Fn(&World) -> Option<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let world = ns.until("all pods are ready", |world| ready(world) == world.pods.len()).await;
    let (pods, before) = (uids(&world), of(&world).cloned().expect("the object is there"));
    let edited = ns.patch::<K>(name, edit).await;
    let same = |live: &K| {
        live.uid() == before.uid()
            && live.labels() == before.labels()
            && live.owner_references() == before.owner_references()
    };
    assert!(!same(&edited), "the edit changed nothing");
    ns.until("the object is as it was", |world| {
        assert_eq!(uids(world), pods, "pods came or went");
        of(world).is_some_and(|live| same(live) && is_later(live, &edited))
    })
    .await;
}

fn a_pod(world: &World) -> Option<&Pod> {
    world.pods.values().find(|pod| pod.name_any().starts_with("llm-0-decode-"))
}

#[tokio::test]
async fn labels_of_an_active_pod_are_restored_without_a_second_pod() {
    in_namespace("e2e-identity-labels", async |ns| {
        let name = a_pod(&settled(ns).await).map(ResourceExt::name_any).expect("a pod");
        for (label, value) in [
            ("app.kubernetes.io/managed-by", Value::Null),
            ("grove.io/podclique", Value::Null),
            ("app.kubernetes.io/part-of", json!("nobody")),
            ("grove.io/podgang", json!("nobody")),
            ("grove.io/podcliqueset-replica-index", json!("9")),
            ("grove.io/podclique-pod-index", json!("9")),
        ] {
            let edit = json!({ "metadata": { "labels": { label: value } } });
            comes_back::<Pod>(ns, &name, edit, |world| world.pods.get(&name)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_orphaned_pod_is_adopted() {
    in_namespace("e2e-identity-pod", async |ns| {
        let name = a_pod(&settled(ns).await).map(ResourceExt::name_any).expect("a pod");
        comes_back::<Pod>(ns, &name, unowned(), |world| world.pods.get(&name)).await;
    })
    .await;
}

#[tokio::test]
async fn orphaned_children_of_a_set_are_adopted() {
    in_namespace("e2e-identity-set", async |ns| {
        settled(ns).await;
        comes_back::<PodClique>(ns, "llm-0-decode", unowned(), |world| world.cliques.get("llm-0-decode")).await;
        comes_back::<PodGang>(ns, "llm-0", unowned(), |world| world.gangs.get("llm-0")).await;
        comes_back::<Service>(ns, "llm-0", unowned(), |world| world.services.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn an_orphaned_scaling_group_its_autoscaler_and_its_cliques_are_adopted() {
    in_namespace("e2e-identity-group", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        ns.until("the set is there", |world| world.is_available("m") && ready(world) == 14).await;
        // Larger than its template: it keeps its size, and the gangs of its further replicas, while it has no owner.
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 4).await;
        ns.until("the group has grown", |world| world.is_available("m") && ready(world) == 18).await;
        comes_back::<PodCliqueScalingGroup>(ns, "m-0-g", unowned(), |world| world.groups.get("m-0-g")).await;
        comes_back::<HorizontalPodAutoscaler>(ns, "m-0-g", unowned(), |world| world.autoscalers.get("m-0-g")).await;
        comes_back::<PodClique>(ns, "m-0-g-3-d", unowned(), |world| world.cliques.get("m-0-g-3-d")).await;
    })
    .await;
}

fn unowned() -> Value {
    json!({ "metadata": { "ownerReferences": null } })
}
