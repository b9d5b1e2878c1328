//! Which cliques make the topology of a set, and the levels of a topology, immutable.

use grove_api_types::configuration::TopologyAwareScheduling;

use super::*;

fn enabled() -> OperatorConfiguration {
    let topology = TopologyAwareScheduling { enabled: true, ..TopologyAwareScheduling::default() };
    OperatorConfiguration { topology, ..OperatorConfiguration::default() }
}

/// The set `team/serve`, which refers to this topology.
fn set_of(topology: &str) -> Value {
    let mut set = set();
    set["spec"]["template"]["topologyConstraint"] = json!({ "topologyName": topology, "pack": { "required": "rack" } });
    set
}

fn topology(name: &str, key: &str) -> Value {
    json!({ "kind": "ClusterTopology", "metadata": { "name": name },
        "spec": { "levels": [{ "domain": "rack", "key": key }] } })
}

fn clique(namespace: &str, set: &str, status: &Value) -> Value {
    let metadata = json!({ "name": "c", "namespace": namespace, "labels": { "app.kubernetes.io/part-of": set } });
    json!({ "kind": "PodClique", "metadata": metadata, "status": status,
        "spec": { "replicas": 1, "podSpec": { "containers": [{ "name": "c" }] } } })
}

/// Whether the update is admitted.
fn admits(webhook: Webhook, kind: &str, (old, new): (&Value, &Value), cluster: &ClusterFacts) -> bool {
    let metadata = &new["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let attributes = json!({ "uid": "7", "operation": "UPDATE", "kind": { "kind": kind }, "name": metadata["name"],
        "namespace": namespace, "object": new, "oldObject": old });
    let review = admit(webhook, &request(&attributes), cluster).to_json("7").unwrap();
    let review: Value = serde_json::from_slice(&review).unwrap();
    review["response"]["allowed"] == true
}

#[test]
fn the_scheduled_replicas_of_the_cliques_of_a_set_make_its_topology_immutable() {
    for (clique, is_mutable) in [
        (clique("team", "serve", &Value::Null), true),
        (clique("team", "serve", &json!({ "scheduledReplicas": 0 })), true),
        (clique("team", "serve", &json!({ "scheduledReplicas": 1 })), false),
        (clique("other", "serve", &json!({ "scheduledReplicas": 1 })), true),
        (clique("team", "other", &json!({ "scheduledReplicas": 1 })), true),
    ] {
        let objects = [clique.clone(), topology("one", "r"), topology("two", "r"), set_of("one")];
        let cluster = cluster(enabled(), &objects);
        let name_changes = (&set_of("one"), &set_of("two"));
        assert_eq!(admits(Webhook::ValidateSet, "PodCliqueSet", name_changes, &cluster), is_mutable, "{clique}");
        let level_changes = (&topology("one", "r"), &topology("one", "other"));
        assert_eq!(
            admits(Webhook::ValidateTopology, "ClusterTopology", level_changes, &cluster),
            is_mutable,
            "{clique}"
        );
        let level_changes = (&topology("two", "r"), &topology("two", "other"));
        assert!(admits(Webhook::ValidateTopology, "ClusterTopology", level_changes, &cluster), "no set refers to it");
    }
}
