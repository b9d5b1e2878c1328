//! Topology-aware scheduling is disabled and enabled again while sets refer to topologies of both kinds, as the design of topology-aware
//! scheduling describes: meanwhile the keys change. No pod is replaced.

use std::collections::BTreeMap;

use e2e::{Namespace, NamespaceState};
use futures::future::join_all;
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{
    HOST, Services, bindings, create_binding, create_set, enabled, set, topologies, topology, wait_for,
    wait_for_levels, wait_until_deleted,
};

/// The names of the ClusterTopology and of the ClusterTopologyBinding.
const NAMES: [&str; 2] = ["switched", "switched-binding"];
/// The sets that refer to each of them.
const SETS: usize = 10;
/// The key while topology-aware scheduling is enabled for the second time.
const NEW: &str = "e2e.example/host";

pub(super) async fn constraints_are_removed_and_return_while_sets_run(
    services: &mut Services,
    client: &Client,
    ns: &Namespace,
) {
    create_all(services, client, ns).await;
    let before = wait_for_gangs(ns, Some(HOST), "AllClusterTopologyLevelsAvailable").await;
    wait_for_counts(client).await;

    services.up_with("switching-off", &json!({ "enabled": false })).await;
    let without = wait_for_gangs(ns, None, "TopologyAwareSchedulingDisabled").await;
    assert_eq!(pods(&without), pods(&before), "disabling replaces no pod");
    services.interrupt(change_keys(client)).await;

    services.up_with("switching-on", &enabled()).await;
    let after = wait_for_gangs(ns, Some(NEW), "AllClusterTopologyLevelsAvailable").await;
    assert_eq!(pods(&after), pods(&before), "enabling replaces no pod");
    wait_for_counts(client).await;
    wait_for_levels(client, NAMES[0], &[NEW]).await;
    delete_all(client, ns).await;
}

/// Creates the topologies and the sets, and waits until the sets are available.
async fn create_all(services: &mut Services, client: &Client, ns: &Namespace) {
    let api = topologies(client);
    api.create(&PostParams::default(), &topology(NAMES[0], &[("host", HOST)])).await.expect("the topology is created");
    create_binding(client, NAMES[1], json!([])).await;
    let sets = NAMES.into_iter().flat_map(|of| (0..SETS).map(move |at| set(&format!("{of}-{at}"), Some(of))));
    let sets: Vec<PodCliqueSet> = sets.collect();
    services.interrupt(join_all(sets.iter().map(|set| create_set(ns, set)))).await;
}

/// Waits until all gangs have this required key and name their topologies, or have neither, and the sets report this reason.
async fn wait_for_gangs(ns: &Namespace, key: Option<&str>, reason: &str) -> NamespaceState {
    let holds = |state: &NamespaceState| {
        let of_topology = |name: &str| {
            let names = (0..SETS).map(|at| format!("{name}-{at}"));
            let is_current = |set: &String| has_constraint(state, set, key.map(|key| (name, key)), reason);
            names.filter(is_current).count() == SETS
        };
        NAMES.iter().all(|name| of_topology(name))
    };
    ns.wait_for(&format!("the gangs of all sets have the key {key:?} and the reason {reason}"), holds).await
}

fn has_constraint(state: &NamespaceState, set: &str, expected: Option<(&str, &str)>, reason: &str) -> bool {
    let conditions = state.sets.get(set).and_then(|set| set.status.as_ref()).map(|status| status.conditions.iter());
    let mut conditions = conditions.into_iter().flatten();
    let is_reported = conditions.any(|c| c.type_ == "TopologyLevelsUnavailable" && c.reason == reason);
    let Some(gang) = state.gangs.get(&format!("{set}-0")).filter(|_| is_reported) else { return false };
    let name = gang.annotations().get("grove.io/topology-name").map(String::as_str);
    let pack = gang.spec.topology_constraint.as_ref().and_then(|constraint| constraint.pack_constraint.as_ref());
    let key = pack.and_then(|pack| pack.required.as_deref());
    (name, key) == (expected.map(|(name, _)| name), expected.map(|(_, key)| key))
}

/// The uids of the pods, by name.
fn pods(state: &NamespaceState) -> BTreeMap<String, Option<String>> {
    state.active_pods().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// Waits until the status of the ClusterTopology counts its sets.
async fn wait_for_counts(client: &Client) {
    let counts_all = |topology: &ClusterTopology| {
        let status = topology.status.clone().unwrap_or_default();
        [status.referring_sets, status.scheduled_sets].map(|count| count.and_then(|count| usize::try_from(count).ok()))
            == [Some(SETS); 2]
    };
    wait_for(client, NAMES[0], counts_all).await;
}

/// Admission allows other keys while topology-aware scheduling is disabled, also if pods are scheduled.
async fn change_keys(client: &Client) {
    let patch = Patch::Merge(json!({ "spec": { "levels": [{ "domain": "host", "key": NEW }] } }));
    topologies(client).patch(NAMES[0], &PatchParams::default(), &patch).await.expect("other keys");
    bindings(client).patch(NAMES[1], &PatchParams::default(), &patch).await.expect("other keys of the binding");
}

async fn delete_all(client: &Client, ns: &Namespace) {
    let all = DeleteParams::background();
    ns.api::<PodCliqueSet>().delete_collection(&all, &ListParams::default()).await.expect("the sets are deleted");
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    topologies(client).delete(NAMES[0], &DeleteParams::default()).await.expect("the topology is deleted");
    bindings(client).delete(NAMES[1], &DeleteParams::default()).await.expect("the binding is deleted");
    wait_until_deleted(client, NAMES[0]).await;
}
