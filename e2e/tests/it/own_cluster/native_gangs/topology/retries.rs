//! Users change the topology of a set while its pods are pending, and while the scheduler binds them. No gang is packed by two topologies. A
//! seed chooses the moments of the changes.

use std::collections::{BTreeMap, BTreeSet};

use e2e::binding_log::{PodEvent, is_bound};
use e2e::namespace_state::TIMEOUT;
use e2e::poll::poll_until;
use e2e::{NamespaceState, TestCluster, test_cluster};
use futures::stream::{self, StreamExt};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::live_objects;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::case::{Case, pods_of};
use super::super::races::{PodChanges, choose, has_one_incarnation};
use super::{
    Nodes, TOPOLOGY_NAME, configuration_with_kai, create_set, create_topology, delete_topology, set_of, start,
    topology_of,
};
use crate::it::own_cluster::kills::Numbers;

/// The sets of a series that exist at the same time.
const CONCURRENCY: usize = 3;
const GANG: &str = "llm-0";
/// The topologies with the keys of their racks, and the nodes in their only rack. A set of two pods does not fit into the first one.
const SHARDS: [(&str, &str, usize); 2] =
    [("shard-a", "shard-a.example/rack", 1), ("shard-b", "shard-b.example/rack", 2)];
const TOPOLOGIES: [(&str, &str); 2] = [("retry-a", "retry-a.example/rack"), ("retry-b", "retry-b.example/rack")];
/// The pods of a gang. Each needs one GPU.
const PODS: u32 = 4;
/// A gang causes at least this many watch events about its pods until they run: each of them is created, bound, and started.
const MOMENTS: usize = 12;

pub(super) async fn a_pending_set_runs_with_another_topology(cluster: &TestCluster) {
    let case = Case::create(cluster, "shards").await;
    create_shards(&case).await;
    create_set(&case, &set_of("llm", Some(SHARDS[0].0), "rack", &[case.clique("a", (2, 2), "p")])).await;
    let first = case.wait_until_unschedulable(GANG, 2).await.name_any();
    case.assert_never_bound(|_| true).await;
    change_topology(&case, SHARDS[1].0, &PatchParams::default()).await.expect("the set is pending");
    case.next_pod_group(GANG, &first).await;
    the_set_runs_with_the_other_topology(&case).await;
    the_topology_is_locked(&case).await;
    case.ns.delete_object::<PodCliqueSet>("llm").await;
    case.ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    for (name, ..) in SHARDS {
        delete_topology(&case.ns.client, name).await;
    }
}

async fn create_shards(case: &Case) {
    for (name, key, nodes) in SHARDS {
        create_topology(&case.ns.client, name, &[("rack", key)]).await;
        for _ in 0..nodes {
            case.add_node_in("p", 1, &[(key, "only")]).await;
        }
    }
}

async fn the_set_runs_with_the_other_topology(case: &Case) {
    let (name, key, _) = SHARDS[1];
    let pods = case.wait_until_bound(GANG, 2).await;
    assert_eq!(Nodes::list(&case.ns.client).await.labels(&pods, key).len(), 1);
    let names_topology = |state: &NamespaceState| {
        let of_set = state.sets.get("llm").and_then(|set| set.labels().get(TOPOLOGY_NAME));
        topology_of(state, GANG) == Some(name) && of_set.is_some_and(|of_set| of_set == name)
    };
    case.ns.wait_for("the set and its gang name the other topology", names_topology).await;
}

async fn the_topology_is_locked(case: &Case) {
    let name = SHARDS[0].0;
    // The webhook server may not know yet that the pods are scheduled.
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    poll_until(async || change_topology(case, name, &dry_run).await.err()).await;
    let denied = change_topology(case, name, &PatchParams::default()).await.expect_err("pods are scheduled");
    assert!(denied.contains("spec.template.clusterTopologyName"), "{denied}");
}

/// Returns the message of a denial.
async fn change_topology(case: &Case, name: &str, params: &PatchParams) -> Result<(), String> {
    let patch = Patch::Merge(json!({ "spec": { "template": { "clusterTopologyName": name } } }));
    match case.ns.api::<PodCliqueSet>().patch("llm", params, &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.message.contains("denied the request") => Err(status.message.clone()),
        Err(error) => panic!("the API server did not answer: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak races --topologies`"]
async fn many_changes_of_the_topology_race_against_binding() {
    let number = test_cluster::required_number::<u64>;
    let tries = usize::try_from(number("GROVE_SOAK_RACES")).expect("a small number");
    let cluster = start("soak-native-topologies", "--native-gangs", &configuration_with_kai()).await;
    series(&cluster, tries, number("GROVE_SOAK_SEED")).await;
    cluster.down().await;
}

/// Changes the topologies of this number of sets while the scheduler binds their gangs.
pub(super) async fn series(cluster: &TestCluster, tries: usize, seed: u64) {
    println!("seed {seed}, {tries} changes of the topology");
    let client = cluster.client().await;
    for (name, key) in TOPOLOGIES {
        create_topology(&client, name, &[("rack", key)]).await;
    }
    let mut numbers = Numbers(seed);
    let moments: Vec<usize> = (0..MOMENTS).collect();
    let tries: Vec<Retry> = (0..tries).map(|number| Retry { number, moment: choose(&mut numbers, &moments) }).collect();
    let runs = stream::iter(tries).map(|retry| async move { (retry, retry.run(cluster).await) });
    let results: Vec<(Retry, Outcome)> = runs.buffer_unordered(CONCURRENCY).collect().await;
    for (retry, outcome) in &results {
        println!("{retry:?}: admitted: {}, packed by {}", outcome.is_admitted, outcome.topology);
    }
    for (name, _) in TOPOLOGIES {
        delete_topology(&client, name).await;
    }
}

/// One set with nodes of its own: both topologies have a node for the whole gang.
#[derive(Clone, Copy, Debug)]
struct Retry {
    number: usize,
    /// The number of watch events about the pods before the change.
    moment: usize,
}

struct Outcome {
    /// Whether admission allowed the change.
    is_admitted: bool,
    /// The topology by which the gang is packed.
    topology: &'static str,
}

impl Retry {
    async fn run(self, cluster: &TestCluster) -> Outcome {
        let case = Case::create(cluster, &format!("retry-{}", self.number)).await;
        let mut nodes = BTreeMap::new();
        for (name, key) in TOPOLOGIES {
            nodes.insert(case.add_node_in("p", PODS, &[(key, case.ns.name.as_str())]).await, name);
        }
        let [(first, _), (second, _)] = TOPOLOGIES;
        self.create_set(&case, first).await;
        let is_admitted = change_topology(&case, second, &PatchParams::default()).await.is_ok();

        let topology = self.wait_until_packed(&case, &nodes).await;
        assert!(is_admitted || topology == first, "{self:?}: the change was denied, and has an effect");
        assert_never_mixed(&case.events().await, &nodes);
        case.ns.delete_object::<PodCliqueSet>("llm").await;
        case.ns.wait_for("no objects exist", NamespaceState::is_empty).await;
        case.ns.delete().await;
        Outcome { is_admitted, topology }
    }

    /// Creates the set, and waits until the moment has come.
    async fn create_set(self, case: &Case, topology: &str) {
        let mut changes: PodChanges = live_objects::changes(&case.ns.client, &case.ns.name).boxed();
        let listed = changes.next().await.expect("the watch starts with a list");
        assert!(listed.is_empty(), "{listed:?}");
        let cliques = ["a", "b"].map(|name| case.clique(name, (2, 2), "p"));
        create_set(case, &set_of("llm", Some(topology), "rack", &cliques)).await;
        let come = tokio::time::timeout(TIMEOUT, self.wait(&mut changes)).await;
        assert!(come.is_ok(), "{self:?}: the moment does not come");
    }

    /// Waits until the gang is packed by the topology that it names, and returns the topology.
    async fn wait_until_packed(self, case: &Case, nodes: &BTreeMap<String, &'static str>) -> &'static str {
        let what = format!("{self:?}: the gang is packed by the topology that it names");
        let state = case.ns.wait_for(&what, |state| packed_by(state, nodes).is_some()).await;
        packed_by(&state, nodes).expect("a topology")
    }

    /// Waits until the moment has come, by watch events alone.
    async fn wait(self, changes: &mut PodChanges) {
        let mut count = 0;
        while count < self.moment {
            count += changes.next().await.expect("the watch has no end").len();
        }
    }
}

/// The topology that the gang names, if pcs-controller has observed the set and all pods are bound to nodes of this topology.
fn packed_by(state: &NamespaceState, nodes: &BTreeMap<String, &'static str>) -> Option<&'static str> {
    let (set, pods) = (state.sets.get("llm")?, pods_of(state, GANG));
    let is_observed = set.status.as_ref()?.observed_generation == set.metadata.generation;
    let is_complete =
        u32::try_from(pods.len()).is_ok_and(|count| count == PODS) && pods.iter().all(|pod| is_bound(pod));
    let node = |pod: &&Pod| pod.spec.as_ref()?.node_name.as_ref().map(|node| nodes[node]);
    let topologies: BTreeSet<_> = pods.iter().filter_map(node).collect();
    let topology = topologies.first().copied().filter(|_| topologies.len() == 1)?;
    let is_current = is_observed && is_complete && has_one_incarnation(state) && state.status_is_current();
    (is_current && topology_of(state, GANG) == Some(topology)).then_some(topology)
}

/// Checks that at no moment live pods of the gang were bound to nodes of both topologies.
fn assert_never_mixed(events: &[PodEvent], nodes: &BTreeMap<String, &'static str>) {
    let mut bound: BTreeMap<&str, &str> = BTreeMap::new();
    for event in events {
        match event.node.as_ref().filter(|_| !event.is_terminating) {
            Some(node) => bound.insert(&event.uid, nodes[node]),
            None => bound.remove(event.uid.as_str()),
        };
        let topologies: BTreeSet<&&str> = bound.values().collect();
        assert!(topologies.len() < 2, "bound by two topologies: {bound:?}, after {event:?} in\n{events:#?}");
    }
}
