//! Many sets in several namespaces that refer to one ClusterTopology. Its status counts them, and is written rarely, however many sets are
//! created.

use std::time::{Duration, Instant};

use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, test_cluster};
use futures::stream::{self, StreamExt};
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use grove_dev_harness::audit_log::Event;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

pub(super) const TOPOLOGY: &str = "e2e-referring-sets";
/// A configuration that enables topology-aware scheduling.
pub(super) const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");
/// Each watch event costs the test time in proportion to the objects of its namespace.
const SETS_PER_NAMESPACE: usize = 25;
/// A simulated node has capacity for twice as many pods.
pub(super) const PODS_PER_NODE: usize = 100;
/// Requests in flight.
const CONCURRENCY: usize = 8;
/// The writes of the status of a topology while 1000 sets are created.
const MAX_STATUS_WRITES: usize = 20;
/// Between two writes of the status that show progress (`min_write_interval` of the topology reconciler).
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(15);
/// Writes that do not wait: of the conditions of a new topology, of its first set and first scheduled set, and after a conflict.
const WRITES_AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak topologies`"]
async fn many_new_sets_cause_few_status_writes_of_their_topology() {
    let sets: usize = test_cluster::required_number("GROVE_SOAK_SETS");
    let nodes = sets.div_ceil(PODS_PER_NODE).to_string();
    let flags = ["--nodes", &nodes, "--config", CONFIGURATION];
    let cluster = TestCluster::with_own_services("soak-topologies", &flags).await;
    let client = cluster.client().await;
    let template = json!({ "topologyConstraint": constraint("host"), "cliques": [clique("w", 1)] });
    let started = Instant::now();
    create_sets(&client, sets, &template).await;
    let created = started.elapsed();
    wait_until_counted(&client, sets).await;
    let writes = assert_few_status_writes(&cluster);
    assert!(writes <= MAX_STATUS_WRITES, "{writes} writes of the status, at most {MAX_STATUS_WRITES}");
    let counted = started.elapsed();
    println!(
        "{sets} sets were created in {created:.0?}, and counted after {counted:.0?}: {writes} writes of the status"
    );
    cluster.down().await;
}

/// Packs pods by this level of the topology.
pub(super) fn constraint(level: &str) -> Value {
    json!({ "topologyName": TOPOLOGY, "pack": { "required": level } })
}

/// A clique of this number of pods, all of which its gang needs.
pub(super) fn clique(name: &str, pods: i32) -> Value {
    let pod_spec = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    json!({ "name": name, "spec": { "roleName": name, "replicas": pods, "minAvailable": pods, "podSpec": pod_spec } })
}

/// Creates the topology, and then sets of one replica with this template. Returns the namespaces of the sets.
pub(super) async fn create_sets(client: &Client, count: usize, template: &Value) -> Vec<Namespace> {
    create_topology(client).await;
    let mut namespaces = Vec::new();
    for number in 0..count.div_ceil(SETS_PER_NAMESPACE) {
        namespaces.push(Namespace::create(client, &format!("e2e-referring-sets-{number}")).await);
    }
    let creates = (0..count).map(|number| create_set(&namespaces[number / SETS_PER_NAMESPACE], number, template));
    stream::iter(creates).buffer_unordered(CONCURRENCY).collect::<()>().await;
    namespaces
}

async fn create_topology(client: &Client) {
    let level = |domain: &str, key: &str| json!({ "domain": domain, "key": key });
    let levels = [
        level("zone", "topology.kubernetes.io/zone"),
        level("rack", "topology.grove.io/rack"),
        level("host", "kubernetes.io/hostname"),
    ];
    let spec = serde_json::from_value(json!({ "levels": levels })).expect("a spec");
    let created = topologies(client).create(&PostParams::default(), &ClusterTopology::new(TOPOLOGY, spec)).await;
    created.expect("the topology is created");
}

async fn create_set(ns: &Namespace, number: usize, template: &Value) {
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": { "name": format!("s{number}") }, "spec": { "replicas": 1, "template": template } });
    ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
}

fn topologies(client: &Client) -> Api<ClusterTopology> {
    Api::all(client.clone())
}

/// Waits until the status of the topology counts this number of sets, and pods of all of them are scheduled.
pub(super) async fn wait_until_counted(client: &Client, sets: usize) {
    let expected = i32::try_from(sets).ok();
    let topologies = topologies(client);
    poll_until(async || {
        let status = topologies.get(TOPOLOGY).await.ok()?.status?;
        ((status.referring_sets, status.scheduled_sets) == (expected, expected)).then_some(())
    })
    .await;
}

/// Checks that the number of requests that wrote the status of the topology depends on the time between the first and the last one, and not
/// on the number of sets. Returns the number.
pub(super) fn assert_few_status_writes(cluster: &TestCluster) -> usize {
    let events = cluster.audit_log().events();
    let writes: Vec<_> = events.iter().filter(|event| is_status_write(event)).filter_map(Event::received_at).collect();
    let [Some(first), Some(last)] = [writes.iter().min(), writes.iter().max()] else {
        panic!("no write of the status")
    };
    let span = last.duration_since(*first).expect("the last write is later");
    let intervals = span.as_secs() / MIN_WRITE_INTERVAL.as_secs();
    let most = WRITES_AT_ONCE + usize::try_from(intervals).expect("a small number");
    assert!(writes.len() <= most, "{} writes of the status in {span:.0?}, at most {most}", writes.len());
    writes.len()
}

fn is_status_write(event: &Event) -> bool {
    let Some(object) = &event.object_ref else { return false };
    event.is_write() && object.full_resource() == "clustertopologies/status" && object.name == TOPOLOGY
}
