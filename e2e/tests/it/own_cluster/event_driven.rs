//! It is an event that brings back what was lost, not a timer and not a second attempt: by the services' own counters.

use std::collections::BTreeMap;
use std::fmt::Debug;

use e2e::metrics::{self, Samples};
use e2e::{Namespace, Plane, World, sets, world::is_ready};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];

#[tokio::test(flavor = "multi_thread")]
async fn every_deleted_child_is_recreated_by_a_watch_event() {
    let plane = Plane::own("events").await;
    let ns = Namespace::create(&plane.client().await, "e2e-events").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set is whole", whole).await;
    let before = counted(&plane).await;
    comes_back::<Service>(&ns, whole, |world| world.services.values().collect()).await;
    comes_back::<PodGang>(&ns, whole, |world| world.gangs.values().collect()).await;
    comes_back::<PodClique>(&ns, whole, |world| world.cliques.values().collect()).await;
    comes_back::<Pod>(&ns, whole, |world| world.live_pods().collect()).await;
    by_events_alone(&before, &counted(&plane).await);
    children_of_a_set_with_a_group_come_back(&plane).await;
    a_name_that_becomes_free_is_taken(&plane).await;
    plane.down().await;
}

/// Groups, their cliques and gangs, and autoscalers; of pods that of the last gang, which waits for the base gang.
async fn children_of_a_set_with_a_group_come_back(plane: &Plane) {
    let ns = Namespace::create(&plane.client().await, "e2e-events-groups").await;
    ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
    ns.until("the set is whole", whole_with_a_group).await;
    let before = counted(plane).await;
    comes_back::<HorizontalPodAutoscaler>(&ns, whole_with_a_group, |world| world.autoscalers.values().collect()).await;
    comes_back::<PodCliqueScalingGroup>(&ns, whole_with_a_group, |world| world.groups.values().collect()).await;
    comes_back::<PodGang>(&ns, whole_with_a_group, |world| world.gangs.values().collect()).await;
    comes_back::<PodClique>(&ns, whole_with_a_group, |world| world.cliques.values().collect()).await;
    comes_back::<Pod>(&ns, whole_with_a_group, |world| {
        let of_last = |pod: &&Pod| pod.labels().get("grove.io/podgang").is_some_and(|gang| gang == "m-0-g-1");
        world.live_pods().filter(of_last).collect()
    })
    .await;
    by_events_alone(&before, &counted(plane).await);
}

/// A set waits for the name of its Service, and is completed when that is given up.
async fn a_name_that_becomes_free_is_taken(plane: &Plane) {
    let ns = Namespace::create(&plane.client().await, "e2e-events-names").await;
    ns.create_yaml::<Service>("{metadata: {name: llm-0}, spec: {ports: [{port: 80}]}}").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set says what it waits for", |world| {
        let status = world.sets.get("llm").and_then(|set| set.status.as_ref());
        status.is_some_and(|status| {
            status.last_errors.iter().any(|error| error.description.contains("rename or delete it to free the name"))
        })
    })
    .await;
    let before = counted(plane).await;
    ns.remove::<Service>("llm-0").await;
    ns.until("the set is whole", whole).await;
    by_events_alone(&before, &counted(plane).await);
}

fn by_events_alone(before: &BTreeMap<&'static str, Samples>, after: &BTreeMap<&'static str, Samples>) {
    for service in SERVICES {
        let growth = metrics::growth(&before[service], &after[service]);
        let kept: Vec<_> = growth.keys().filter(|sample| tells_of_another_way(sample)).collect();
        assert!(kept.is_empty(), "{service} did not rely on events alone: {growth:#?}");
        let reconciled = growth
            .keys()
            .any(|s| s.starts_with("controller_runtime_reconcile_total") && s.contains("result=\"success\""));
        assert!(reconciled, "{service} counts no reconciliation: {growth:#?}");
    }
}

/// Whether the sample counts attempts that failed, visits at a known time, or trouble with watches.
fn tells_of_another_way(sample: &str) -> bool {
    let is_success = sample.contains("result=\"success\"");
    sample.starts_with("grove_watch_failures_total")
        || sample.starts_with("reflector_lists_total")
        || (sample.starts_with("controller_runtime_reconcile_total") && !is_success)
}

async fn counted(plane: &Plane) -> BTreeMap<&'static str, Samples> {
    let mut counted = BTreeMap::new();
    for service in SERVICES {
        counted.insert(service, metrics::of(plane, service).await);
    }
    counted
}

/// Deletes the objects of a kind one by one; each is followed by another of its name or index.
async fn comes_back<K>(ns: &Namespace, whole: fn(&World) -> bool, all: fn(&World) -> Vec<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let world = ns.until("the set is whole", whole).await;
    for lost in all(&world).into_iter().cloned().collect::<Vec<K>>() {
        ns.until("the set is whole", whole).await;
        ns.remove::<K>(&lost.name_any()).await;
        let kind = K::kind(&());
        ns.until(&format!("another {kind} is there, and all is whole"), |world| {
            whole(world) && all(world).iter().all(|live| live.uid() != lost.uid())
        })
        .await;
    }
}

/// What lost its owner goes, too, though its successor has not come yet.
fn has_its_owner<K: Resource>(world: &World, object: &K) -> bool {
    let LiveObjects { sets, groups, cliques, .. } = &world.objects;
    let sets = sets.values().filter_map(ResourceExt::uid);
    let owners = sets.chain(groups.values().filter_map(ResourceExt::uid));
    let owners: Vec<_> = owners.chain(cliques.values().filter_map(ResourceExt::uid)).collect();
    object.owner_references().iter().any(|owner| owners.contains(&owner.uid))
}

/// Whether the set is available and each of so many pods is ready, has its owner, and is referred to by its gang.
fn serves(world: &World, set: &str, pods: usize) -> bool {
    world.is_available(set)
        && world.pods.len() == pods
        && world.live_pods().filter(|pod| is_ready(pod) && has_its_owner(world, *pod)).count() == pods
        && world.cliques.values().all(|clique| has_its_owner(world, clique))
        && world.references() == pods
}

fn whole(world: &World) -> bool {
    (world.services.len(), world.gangs.len(), world.cliques.len()) == (1, 1, 3) && serves(world, "llm", 5)
}

fn whole_with_a_group(world: &World) -> bool {
    let LiveObjects { services, gangs, cliques, groups, autoscalers, .. } = &world.objects;
    (services.len(), gangs.len(), cliques.len(), groups.len(), autoscalers.len()) == (1, 3, 7, 1, 2)
        && serves(world, "m", 14)
}
