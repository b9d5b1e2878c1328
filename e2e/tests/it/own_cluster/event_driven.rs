//! Watch events trigger every repair, not timers or retries: the counters of the services show it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use e2e::metrics::{self, Samples};
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, namespace_state::is_ready};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

const SERVICES: [&str; 4] = ["pcs-controller", "pclq-controller", "topology-controller", IDLE];
/// The service that these sets do not need: it reconciles them only when they themselves change.
const IDLE: &str = "mnnvl-controller";

/// Takes long: the children are deleted one after the other, because a repair must not be triggered by the event of another one.
#[tokio::test(flavor = "multi_thread")]
async fn every_deleted_child_is_recreated_by_a_watch_event() {
    let cluster = TestCluster::with_own_services("event-driven", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-event-driven").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is complete", is_complete).await;
    let before = scrape_all(&cluster).await;
    is_recreated::<Service>(&ns, is_complete, |state| state.services.values().collect()).await;
    is_recreated::<PodGang>(&ns, is_complete, |state| state.gangs.values().collect()).await;
    is_recreated::<PodClique>(&ns, is_complete, |state| state.cliques.values().collect()).await;
    is_recreated::<Pod>(&ns, is_complete, |state| state.active_pods().collect()).await;
    assert_only_events(&before, &scrape_all(&cluster).await);
    children_of_a_set_with_a_group_are_recreated(&cluster).await;
    released_name_is_used(&cluster).await;
    cluster.down().await;
}

/// Deletes groups, their cliques and gangs, and autoscalers; of the pods those of the last scaled gang, which the base gang
/// gates.
async fn children_of_a_set_with_a_group_are_recreated(cluster: &TestCluster) {
    let ns = Namespace::create(&cluster.client().await, "e2e-event-driven-groups").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
    ns.wait_for("the set is complete", is_complete_with_group).await;
    let before = scrape_all(cluster).await;
    is_recreated::<HorizontalPodAutoscaler>(&ns, is_complete_with_group, |state| state.autoscalers.values().collect())
        .await;
    is_recreated::<PodCliqueScalingGroup>(&ns, is_complete_with_group, |state| state.groups.values().collect()).await;
    is_recreated::<PodGang>(&ns, is_complete_with_group, |state| state.gangs.values().collect()).await;
    is_recreated::<PodClique>(&ns, is_complete_with_group, |state| state.cliques.values().collect()).await;
    is_recreated::<Pod>(&ns, is_complete_with_group, |state| {
        let of_last = |pod: &&Pod| pod.labels().get("grove.io/podgang").is_some_and(|gang| gang == "m-0-g-1");
        state.active_pods().filter(of_last).collect()
    })
    .await;
    assert_only_events(&before, &scrape_all(cluster).await);
}

/// A name conflict ends after the deletion of the foreign Service. No event of a foreign object triggers the set: it is reconciled again
/// after a delay (`name_conflict.rs` of grove-controller).
async fn released_name_is_used(cluster: &TestCluster) {
    let ns = Namespace::create(&cluster.client().await, "e2e-event-driven-names").await;
    ns.create_yaml::<Service>("{metadata: {name: llm-0}, spec: {ports: [{port: 80}]}}").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set reports the name conflict", |state| {
        let status = state.sets.get("llm").and_then(|set| set.status.as_ref());
        status.is_some_and(|status| {
            status.last_errors.iter().any(|error| error.description.contains("rename or delete it to free the name"))
        })
    })
    .await;
    ns.delete_object::<Service>("llm-0").await;
    ns.wait_for("the set is complete", is_complete).await;
}

fn assert_only_events(before: &BTreeMap<&'static str, Samples>, after: &BTreeMap<&'static str, Samples>) {
    for service in SERVICES {
        let growth = metrics::increases(&before[service], &after[service]);
        let others: Vec<_> = growth.keys().filter(|sample| counts_other_triggers(sample)).collect();
        assert!(others.is_empty(), "{service} did not rely on events alone: {growth:#?}");
        let reconciled = growth
            .keys()
            .any(|s| s.starts_with("controller_runtime_reconcile_total") && s.contains("result=\"success\""));
        assert!(reconciled || service == IDLE, "{service} counts no reconcile: {growth:#?}");
    }
}

/// Whether a metric counts failed reconciles, requeues after a delay, lists or failed watches. Without the component of the default
/// scheduler, the services must not list the `PodGroup`s of Kubernetes, and the API server does not serve ComputeDomains. The services try
/// both from time to time.
fn counts_other_triggers(sample: &str) -> bool {
    let is_success = sample.contains("result=\"success\"");
    let unavailable = ["kind=\"PodGroup\"", "kind=\"ComputeDomain.resource.nvidia.com\""];
    let is_unavailable = unavailable.iter().any(|kind| sample.contains(kind));
    (sample.starts_with("grove_watch_failures_total") && !is_unavailable)
        || sample.starts_with("reflector_lists_total")
        || (sample.starts_with("controller_runtime_reconcile_total") && !is_success)
}

async fn scrape_all(cluster: &TestCluster) -> BTreeMap<&'static str, Samples> {
    let mut samples = BTreeMap::new();
    for service in SERVICES {
        samples.insert(service, metrics::scrape(cluster, service).await);
    }
    samples
}

/// Deletes the objects of a kind one by one, and waits each time until the object is recreated.
async fn is_recreated<K>(ns: &Namespace, is_complete: fn(&NamespaceState) -> bool, all: fn(&NamespaceState) -> Vec<&K>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let state = ns.wait_for("the set is complete", is_complete).await;
    for deleted in all(&state).into_iter().cloned().collect::<Vec<K>>() {
        ns.wait_for("the set is complete", is_complete).await;
        ns.delete_object::<K>(&deleted.name_any()).await;
        let kind = K::kind(&());
        ns.wait_for(&format!("the {kind} is recreated, and the set is complete"), |state| {
            is_complete(state) && all(state).iter().all(|live| live.uid() != deleted.uid())
        })
        .await;
    }
}

/// Whether the owner of an object exists. The garbage collector deletes the object otherwise, perhaps before its owner is
/// recreated.
fn has_owner<K: Resource>(state: &NamespaceState, object: &K) -> bool {
    let LiveObjects { sets, groups, cliques, .. } = &state.objects;
    let sets = sets.values().filter_map(ResourceExt::uid);
    let owners = sets.chain(groups.values().filter_map(ResourceExt::uid));
    let owners: Vec<_> = owners.chain(cliques.values().filter_map(ResourceExt::uid)).collect();
    object.owner_references().iter().any(|owner| owners.contains(&owner.uid))
}

/// Whether the set is available, no status write is outstanding, and exactly this many pods exist, are ready and have an owner and a reference
/// in a `PodGang`. A later status write could trigger the reconcile that the deletion should trigger.
fn is_settled(state: &NamespaceState, set: &str, pods: usize) -> bool {
    state.is_available(set)
        && state.status_is_current()
        && state.pods.len() == pods
        && state.active_pods().filter(|pod| is_ready(pod) && has_owner(state, *pod)).count() == pods
        && state.cliques.values().all(|clique| has_owner(state, clique))
        && state.reference_count() == pods
}

fn is_complete(state: &NamespaceState) -> bool {
    (state.services.len(), state.gangs.len(), state.cliques.len()) == (1, 1, 3) && is_settled(state, "llm", 5)
}

fn is_complete_with_group(state: &NamespaceState) -> bool {
    let LiveObjects { services, gangs, cliques, groups, autoscalers, .. } = &state.objects;
    (services.len(), gangs.len(), cliques.len(), groups.len(), autoscalers.len()) == (1, 3, 7, 1, 2)
        && is_settled(state, "m", 14)
}
