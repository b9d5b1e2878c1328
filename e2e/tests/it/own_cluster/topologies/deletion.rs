//! The deletion of topologies of both kinds: while sets refer to them, while none does, and in the second in which a set is created.

use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{
    HOST, Services, bindings, create_binding, create_set, has_reason, scheduler_topologies, set, topologies, topology,
    wait_for, wait_for_levels, wait_until_deleted,
};

/// The topologies of each kind. The deletion of each of them races against the creation of a set.
const RACES: usize = 5;
const NOT_FOUND: &str = "ClusterTopologyNotFound";
const AVAILABLE: &str = "AllClusterTopologyLevelsAvailable";

pub(super) async fn a_topology_without_sets_is_deleted(services: &mut Services, client: &Client) {
    let created = topology("unused", &[("host", HOST)]);
    topologies(client).create(&PostParams::default(), &created).await.expect("the topology is created");
    wait_for_levels(client, "unused", &[HOST]).await;
    let deleted = topologies(client);
    services.interrupt(deleted.delete("unused", &DeleteParams::default())).await.expect("the delete is accepted");
    wait_until_deleted(client, "unused").await;
    wait_until_object_is_deleted(client, "unused").await;
}

/// A binding has no finalizer. A gang with scheduled pods retains its topology.
pub(super) async fn a_binding_with_sets_is_deleted(services: &mut Services, client: &Client, ns: &Namespace) {
    create_binding(client, "used", json!([])).await;
    create_set(ns, &set("user", Some("used"))).await;
    let deleted = bindings(client);
    services.interrupt(deleted.delete("used", &DeleteParams::default())).await.expect("the delete is accepted");
    wait_until_binding_is_deleted(client, "used").await;
    wait_until_object_is_deleted(client, "used").await;
    let state = wait_for_reason(ns, "user", NOT_FOUND).await;
    let annotations = state.gangs["user-0"].annotations();
    assert_eq!(annotations.get("grove.io/topology-name").map(String::as_str), Some("used"));

    let recreated = async { create_binding(client, "used", json!([])).await };
    services.interrupt(recreated).await;
    wait_for_reason(ns, "user", AVAILABLE).await;
    ns.delete_object::<PodCliqueSet>("user").await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    services.interrupt(deleted.delete("used", &DeleteParams::default())).await.expect("the delete is accepted");
    wait_until_binding_is_deleted(client, "used").await;
    wait_until_object_is_deleted(client, "used").await;
}

pub(super) async fn wait_until_binding_is_deleted(client: &Client, name: &str) {
    poll_until(async || bindings(client).get_opt(name).await.expect("an answer").is_none().then_some(())).await;
}

/// The topology object of KAI is deleted with its owner.
async fn wait_until_object_is_deleted(client: &Client, name: &str) {
    let objects = scheduler_topologies(client);
    poll_until(async || objects.get_opt(name).await.expect("an answer").is_none().then_some(())).await;
}

/// Waits until the set reports this reason about its topology.
async fn wait_for_reason(ns: &Namespace, set: &str, reason: &str) -> NamespaceState {
    let is_reported = |state: &NamespaceState| {
        let status = state.sets.get(set).and_then(|set| set.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|c| c.type_ == "TopologyLevelsUnavailable" && c.reason == reason)
    };
    ns.wait_for(&format!("the set {set} reports {reason}"), is_reported).await
}

/// Sets are created while their topologies are deleted, and topology-controller is killed meanwhile. A ClusterTopology exists as long as an
/// admitted set. Without its binding, an admitted set reports that it has no topology.
pub(super) async fn topologies_are_deleted_while_sets_are_created(
    services: &mut Services,
    client: &Client,
    ns: &Namespace,
) {
    let names = |kind: &str| -> Vec<String> { (0..RACES).map(|at| format!("{kind}-{at}")).collect() };
    let (of_topologies, of_bindings) = (names("deleted"), names("deleted-binding"));
    create_both_kinds(client, &of_topologies, &of_bindings).await;
    let (api, params) = (topologies(client), DeleteParams::default());
    let topologies_race = join_all(of_topologies.iter().map(async |name| {
        let (admitted, deleted) = tokio::join!(is_admitted(ns, name), api.delete(name, &params));
        deleted.expect("the delete is accepted");
        admitted
    }));
    let api = bindings(client);
    let bindings_race = join_all(of_bindings.iter().map(async |name| {
        let (admitted, deleted) = tokio::join!(is_admitted(ns, name), api.delete(name, &params));
        deleted.expect("the delete is accepted");
        admitted
    }));
    let (of_topology, of_binding) = services.interrupt(async { tokio::join!(topologies_race, bindings_race) }).await;
    println!("admitted sets: {of_topology:?} {of_binding:?}");

    for (name, is_admitted) in of_topologies.iter().zip(of_topology) {
        the_topology_ends_after_its_set(client, ns, (name.as_str(), is_admitted)).await;
    }
    for (name, is_admitted) in of_bindings.iter().zip(of_binding) {
        the_set_reports_the_end_of_its_binding(client, ns, (name.as_str(), is_admitted)).await;
    }
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
}

async fn create_both_kinds(client: &Client, of_topologies: &[String], of_bindings: &[String]) {
    for name in of_topologies {
        let created = topology(name, &[("host", HOST)]);
        topologies(client).create(&PostParams::default(), &created).await.expect("the topology is created");
        wait_for(client, name, |topology| !topology.finalizers().is_empty()).await;
    }
    for name in of_bindings {
        create_binding(client, name, json!([])).await;
    }
}

async fn the_topology_ends_after_its_set(client: &Client, ns: &Namespace, (name, is_admitted): (&str, bool)) {
    if is_admitted {
        wait_for(client, name, |topology| has_reason(topology, "Ready", "False", "TopologyTerminating")).await;
        ns.delete_object::<PodCliqueSet>(name).await;
    }
    wait_until_deleted(client, name).await;
}

async fn the_set_reports_the_end_of_its_binding(client: &Client, ns: &Namespace, (name, is_admitted): (&str, bool)) {
    wait_until_binding_is_deleted(client, name).await;
    if is_admitted {
        wait_for_reason(ns, name, NOT_FOUND).await;
        ns.delete_object::<PodCliqueSet>(name).await;
    }
}

/// Creates a set that refers to a topology of the same name. A topology that is terminating or deleted counts as not found.
async fn is_admitted(ns: &Namespace, name: &str) -> bool {
    match ns.api::<PodCliqueSet>().create(&PostParams::default(), &set(name, Some(name))).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.message.contains("create it or choose another topology") => false,
        Err(error) => panic!("another error: {error}"),
    }
}
