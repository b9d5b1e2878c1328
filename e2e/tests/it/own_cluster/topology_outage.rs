//! An outage of topology-controller on a cluster with native gangs. The other services continue: they create cliques and pods, and new pods
//! of existing gangs are bound. The pods of new gangs wait for their `PodGroup`s, and are bound after the outage.

use std::collections::{BTreeMap, BTreeSet};

use e2e::binding_log::{BindingLog, bound_pods, is_bound, pod_group};
use e2e::native_gangs::{all_are_bound, gang_of, named_pod_group, pod_groups};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::kills::{is_complete, set};

const SERVICE: &str = "topology-controller";
/// The set that is scaled, and the one that is deleted and created again.
const BEFORE: [&str; 2] = ["llm", "again"];
/// The gangs that begin during the outage, and the numbers of their pods.
const NEW: [(&str, usize); 2] = [("new-0", 4), ("new-0-g-0", 2)];
const OF_REPLICA: [(&str, usize); 2] = [("llm-1", 4), ("llm-1-g-0", 2)];
const OF_SCALING_GROUP: [(&str, usize); 1] = [("llm-0-g-1", 2)];
const AGAIN: [(&str, usize); 2] = [("again-0", 4), ("again-0-g-0", 2)];

#[tokio::test(flavor = "multi_thread")]
async fn gangs_are_bound_after_an_outage_of_topology_controller() {
    let cluster = TestCluster::with_own_services("topology-outage", &["--native-gangs"]).await;
    let client = cluster.client().await;
    let ns = &Namespace::create(&client, "e2e-topology-outage").await;
    let groups = pod_groups(&client, &ns.name);
    for name in BEFORE {
        ns.create_yaml::<PodCliqueSet>(&set(name)).await;
    }
    let before = ns.wait_for("the first gangs are bound", |state| is_settled(state, BEFORE.len())).await;
    let log = BindingLog::start(&client, &ns.name).await;

    cluster.stop(SERVICE).await;
    sets_are_created_and_scaled(ns).await;
    let waiting = [NEW.as_slice(), &OF_REPLICA, &OF_SCALING_GROUP, &AGAIN].concat();
    let state = wait_until_pods_wait(ns, &waiting).await;
    let named = named_by(&state, waiting.iter().map(|(gang, _)| *gang));
    let existing = names(&groups).await;
    assert_eq!((named.len(), existing.intersection(&named).count()), (waiting.len(), 0), "{named:?}, {existing:?}");
    let events = log.events().await;
    let bound = bound_pods(&events, |event| event.pod_group.as_ref().is_some_and(|group| named.contains(group)));
    assert!(bound.is_empty(), "bound without a PodGroup: {bound:?}");

    cluster.start_again().await;
    let after = ns.wait_for("all gangs are bound", |state| is_settled(state, BEFORE.len() + 1)).await;
    let uids = uids_of_first_replica(&after);
    for (pod, uid) in uids_of_first_replica(&before) {
        assert_eq!(uids.get(&pod), Some(&uid), "{pod} was replaced:\n{after}");
    }
    let expected = named_by(&after, after.gangs.keys().map(String::as_str));
    assert!(named.is_subset(&expected), "a gang has another PodGroup than before: {named:?}, {expected:?}");
    poll_until(async || (names(&groups).await == expected).then_some(())).await;
    cluster.down().await;
}

/// What users do while topology-controller is stopped. Each step waits for what the other services do.
async fn sets_are_created_and_scaled(ns: &Namespace) {
    ns.create_yaml::<PodCliqueSet>(&set("new")).await;
    wait_until_pods_wait(ns, &NEW).await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    wait_until_pods_wait(ns, &OF_REPLICA).await;
    ns.scale::<PodCliqueScalingGroup>("llm-0-g", 3).await;
    wait_until_pods_wait(ns, &OF_SCALING_GROUP).await;

    // This gang has its PodGroup already.
    ns.scale::<PodClique>("llm-0-f", 4).await;
    ns.wait_for("the clique of an existing gang has four ready pods", |state| {
        state.ready_indices("llm-0-f") == [0, 1, 2, 3]
    })
    .await;

    ns.delete_object::<PodCliqueSet>("again").await;
    ns.wait_for("the set and its pods are deleted", |state| {
        let is_of_set = |pod: &String| pod.starts_with("again-");
        !state.sets.contains_key("again") && !state.pods.keys().any(is_of_set)
    })
    .await;
    ns.create_yaml::<PodCliqueSet>(&set("again")).await;
    wait_until_pods_wait(ns, &AGAIN).await;
}

/// Waits until these gangs have these numbers of pods, which name the `PodGroup`s of their gangs and are not bound.
async fn wait_until_pods_wait(ns: &Namespace, gangs: &[(&str, usize)]) -> NamespaceState {
    let waits = |state: &NamespaceState, (gang, pods): (&str, usize)| {
        let named = named_pod_group(state, gang);
        let members: Vec<&Pod> = state.active_pods().filter(|pod| gang_of(pod) == Some(gang)).collect();
        let is_waiting = |pod: &Pod| pod_group(pod) == named && !is_bound(pod);
        named.is_some() && members.len() == pods && members.into_iter().all(is_waiting)
    };
    let what = format!("the pods of these gangs wait: {gangs:?}");
    ns.wait_for(&what, |state| gangs.iter().all(|gang| waits(state, *gang))).await
}

/// Whether there are this number of sets, all their gangs are bound, and the conditions of all objects are current.
fn is_settled(state: &NamespaceState, sets: usize) -> bool {
    state.sets.len() == sets && is_complete(state) && all_are_bound(state)
}

/// The uids of the pods of the first replica of the scaled set, by name.
fn uids_of_first_replica(state: &NamespaceState) -> BTreeMap<String, String> {
    let of_replica = state.pods.values().filter(|pod| pod.name_any().starts_with("llm-0-"));
    of_replica.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

/// The `PodGroup`s that the annotations of these gangs name.
fn named_by<'a>(state: &NamespaceState, gangs: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    gangs.filter_map(|gang| named_pod_group(state, gang)).map(str::to_owned).collect()
}

/// The names of the stored `PodGroup`s.
async fn names(groups: &Api<DynamicObject>) -> BTreeSet<String> {
    let groups = groups.list(&ListParams::default()).await.expect("the PodGroups").items;
    groups.iter().map(ResourceExt::name_any).collect()
}
