//! Reviews of objects that refer to an object of which the watch event is still pending.

use grove_api_types::configuration::SchedulerProfile;
use grove_api_types::scheduler::Scheduler;
use grove_runtime::caches::{Cache, InformerOptions, Writer};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A configuration in which sets may refer to topologies, and to queues of Volcano.
fn configuration() -> OperatorConfiguration {
    let mut configuration = OperatorConfiguration::default();
    configuration.topology.enabled = true;
    configuration.schedulers.profiles =
        [Scheduler::Kube, Scheduler::Volcano].map(|name| SchedulerProfile { name, config: Value::Null }).to_vec();
    configuration
}

fn set() -> Value {
    let containers = json!([{ "name": "main", "image": "pause" }]);
    let clique = json!({ "name": "front", "spec": { "roleName": "front", "replicas": 1, "minAvailable": 1, "podSpec": { "containers": containers } } });
    json!({ "kind": "PodCliqueSet", "metadata": { "name": "serve", "namespace": "team", "uid": "1" },
        "spec": { "replicas": 1, "template": { "cliques": [clique] } } })
}

fn set_with_topology() -> Value {
    let mut set = set();
    set["spec"]["template"]["topologyConstraint"] = json!({ "topologyName": "racks", "packDomain": "rack" });
    set
}

fn set_with_queue() -> Value {
    let mut set = set();
    set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulerName"] = json!("volcano");
    set["metadata"]["annotations"] = json!({ "scheduling.grove.io/volcano-queue": "gpus" });
    set
}

fn topology() -> Value {
    json!({ "metadata": { "name": "racks" }, "spec": { "levels": [{ "domain": "rack", "key": "example.com/rack" }] } })
}

/// Whether the set is allowed, and after how many seconds. The cache gets `event` after a second.
async fn decide<K>(cluster: ClusterFacts, set: &Value, writer: &Writer<K>, event: Option<Value>) -> (bool, u64)
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let (server, start) = (server_with(cluster), Instant::now());
    let decision = async {
        let (status, body) = server.send(Webhook::ValidateSet, JSON, review(set).into()).await;
        assert_eq!(status, 200);
        let review: Value = serde_json::from_slice(&body).unwrap();
        (review["response"]["allowed"] == json!(true), start.elapsed().as_secs())
    };
    let watch = async {
        sleep(SECOND).await;
        if let Some(object) = event {
            writer.apply(serde_json::from_value(object).unwrap());
        }
    };
    tokio::join!(decision, watch).0
}

#[tokio::test(start_paused = true)]
async fn a_set_waits_for_the_watch_event_of_its_topology_or_queue() {
    let mut facts = cluster(configuration(), &[]);
    let (topologies, writer) = Cache::with_writer(InformerOptions::default());
    facts.caches.topologies = topologies;
    assert_eq!(decide(facts, &set_with_topology(), &writer, Some(topology())).await, (true, 1));

    let mut facts = cluster(configuration(), &[]);
    let (bindings, writer) = Cache::with_writer(InformerOptions::default());
    facts.caches.bindings = bindings;
    assert_eq!(decide(facts, &set_with_topology(), &writer, Some(topology())).await, (true, 1));

    let mut facts = cluster(configuration(), &[]);
    let (queues, writer) = Cache::with_writer(InformerOptions::default());
    facts.caches.queues = Some(queues);
    let queue = json!({ "metadata": { "name": "gpus" }, "status": { "state": "Open" } });
    assert_eq!(decide(facts, &set_with_queue(), &writer, Some(queue)).await, (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_set_with_an_unknown_topology_is_denied_after_two_seconds() {
    let mut facts = cluster(configuration(), &[]);
    let (topologies, writer) = Cache::with_writer(InformerOptions::default());
    facts.caches.topologies = topologies;
    let mut other = topology();
    other["metadata"]["name"] = json!("halls");
    assert_eq!(decide(facts, &set_with_topology(), &writer, Some(other)).await, (false, 2));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_invalid_with_its_topology_is_denied_at_once() {
    let mut invalid = set_with_topology();
    invalid["metadata"]["name"] = json!("a.b");
    let mut facts = cluster(configuration(), &[]);
    let (topologies, writer) = Cache::with_writer(InformerOptions::default());
    facts.caches.topologies = topologies;
    assert_eq!(decide(facts, &invalid, &writer, None).await, (false, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_review_ends_its_wait_when_newer_ones_need_its_memory() {
    let server = server_with(cluster(configuration(), &[]));
    let start = Instant::now();
    let waiting = async {
        let set = review(&set_with_topology());
        let (status, _) = server.send(Webhook::ValidateSet, JSON, set.into()).await;
        (status, start.elapsed().as_secs())
    };
    let unfinished = join_all((0..MAX_BODIES).map(|_| server.rejected(JSON, unfinished_body(100))));
    assert_eq!(tokio::join!(waiting, unfinished).0, (200, 0));
}
