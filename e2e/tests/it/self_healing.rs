//! Every managed object that is deleted or edited comes back, woken by the event itself.

use e2e::{Namespace, World, in_namespace, sets, world::is_later};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde_json::json;

async fn settled(ns: &Namespace) -> World {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set is there", whole).await
}

fn whole(world: &World) -> bool {
    world.is_available("llm")
        && world.services.len() == 1
        && world.gangs.len() == 1
        && world.cliques.len() == 3
        && world.ready_indices("llm-0-frontend") == [0]
        && world.ready_indices("llm-0-prefill") == [0, 1]
        && world.ready_indices("llm-0-decode") == [0, 1]
        && world.gangs.values().flat_map(|gang| &gang.spec.podgroups).all(|group| !group.pod_references.is_empty())
}

async fn comes_back<K>(ns: &Namespace, name: &str, of: fn(&World) -> Option<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let before = of(&settled(ns).await).and_then(ResourceExt::uid).expect("the object is there");
    ns.remove::<K>(name).await;
    ns.until("another one is there, and all is whole", |world| {
        of(world).and_then(ResourceExt::uid).is_some_and(|uid| uid != before) && whole(world)
    })
    .await;
}

#[tokio::test]
async fn a_deleted_service_is_recreated() {
    in_namespace("e2e-heal-service", async |ns| {
        comes_back::<Service>(ns, "llm-0", |world| world.services.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_gang_is_recreated_with_its_pod_references() {
    in_namespace("e2e-heal-gang", async |ns| {
        comes_back::<PodGang>(ns, "llm-0", |world| world.gangs.get("llm-0")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_clique_is_recreated_with_its_pods() {
    in_namespace("e2e-heal-clique", async |ns| {
        comes_back::<PodClique>(ns, "llm-0-prefill", |world| world.cliques.get("llm-0-prefill")).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_is_replaced_at_its_index() {
    in_namespace("e2e-heal-pod", async |ns| {
        let world = settled(ns).await;
        let at_index_0 = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.hostname.as_deref()) == Some("llm-0-decode-0");
        let pod = world.live_pods().find(at_index_0).expect("the first decode pod");
        let (name, uid) = (pod.name_any(), pod.uid());
        ns.remove::<Pod>(&name).await;
        ns.until("another pod has the index", |world| {
            whole(world) && world.pods.values().all(|pod| pod.uid() != uid) && world.pods.len() == 5
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn edited_objects_are_restored() {
    in_namespace("e2e-heal-edits", async |ns| {
        settled(ns).await;
        let wrong = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "nobody"}}});
        let gang = ns.patch::<PodGang>("llm-0", wrong.clone()).await;
        let clique = ns.patch::<PodClique>("llm-0-decode", json!({"spec": {"minAvailable": 2}})).await;
        let labels = json!({"labels": {"app.kubernetes.io/part-of": "nobody"}});
        let service = json!({"metadata": labels, "spec": {"publishNotReadyAddresses": false}});
        let service = ns.patch::<Service>("llm-0", service).await;
        ns.until("all is as it was", |world| {
            // The world may still be the one before the edits, which looks the same.
            let moved = is_later(&world.gangs["llm-0"], &gang)
                && is_later(&world.cliques["llm-0-decode"], &clique)
                && is_later(&world.services["llm-0"], &service);
            let part_of = |labels: &std::collections::BTreeMap<String, String>| {
                labels.get("app.kubernetes.io/part-of").is_some_and(|set| set == "llm")
            };
            let service = &world.services["llm-0"];
            let publishes = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
            let minimum = world.cliques["llm-0-decode"].spec.min_available == Some(1);
            moved && publishes && minimum && part_of(service.labels()) && part_of(world.gangs["llm-0"].labels())
        })
        .await;
    })
    .await;
}
