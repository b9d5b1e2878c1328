//! The default topology that Grove manages exists as both kinds with the same levels.

use grove_api_types::configuration::{TopologyAwareScheduling, TopologyDomain, TopologyLevel};

use super::*;

const NAME: &str = "racks";

/// A configuration with one level of the default topology.
fn managed() -> OperatorConfiguration {
    let levels = vec![TopologyLevel { domain: TopologyDomain::Rack, key: "r".to_owned() }];
    let topology =
        TopologyAwareScheduling { enabled: true, name: NAME.to_owned(), levels, ..TopologyAwareScheduling::default() };
    OperatorConfiguration { topology, ..OperatorConfiguration::default() }
}

fn topology(kind: &str, domain: &str, key: &str) -> Value {
    json!({ "kind": kind, "metadata": { "name": NAME }, "spec": { "levels": [{ "domain": domain, "key": key }] } })
}

/// The error about the new topology, in a cluster with these objects.
fn denial(new: &Value, (old, user): (Option<&Value>, &str), objects: &[Value]) -> String {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let attributes = json!({ "uid": "7", "operation": operation, "kind": { "kind": new["kind"] }, "name": NAME,
        "object": new, "oldObject": old, "userInfo": { "username": user } });
    let review = admit(Webhook::ValidateTopology, &request(&attributes), &cluster(managed(), objects)).to_json("7");
    let review: Value = serde_json::from_slice(&review.unwrap()).unwrap();
    review["response"]["status"]["message"].as_str().unwrap_or("allowed").to_owned()
}

#[test]
fn a_user_creates_the_default_topology_only_as_a_binding_with_its_levels() {
    let (topologies, bindings) = ("ClusterTopology", "ClusterTopologyBinding");
    let new = |kind: &str, key: &str| topology(kind, "rack", key);
    let own = "system:serviceaccount:grove-system:pcs-controller";
    let lines = [
        denial(&new(bindings, "r"), (None, "jane"), &[]),
        denial(&new(bindings, "other"), (None, "jane"), &[]),
        // The ClusterTopology retains its levels while sets use them.
        denial(&new(bindings, "old"), (None, "jane"), &[new(topologies, "old")]),
        denial(&new(bindings, "r"), (None, "jane"), &[new(topologies, "old")]),
        denial(&new(topologies, "r"), (None, "jane"), &[new(bindings, "r")]),
        denial(&new(topologies, "r"), (None, own), &[new(bindings, "r")]),
        denial(&new(topologies, "r"), (None, own), &[new(bindings, "other")]),
    ];
    expect![[r#"
        allowed
        metadata.name: Invalid value: "racks": is the name of the default topology, which has other levels: rack=r; use these levels, or choose another name
        allowed
        metadata.name: Invalid value: "racks": is the name of the default topology, which has other levels: rack=old; use these levels, or choose another name
        metadata.name: Invalid value: "racks": is the name of the default topology, which Grove creates from its configuration; choose another name, or change topologyAwareScheduling.levels in the configuration
        allowed
        metadata.name: Invalid value: "racks": is the name of the default topology, which has other levels: rack=other; use these levels, or choose another name
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn the_levels_of_both_kinds_are_in_use_and_only_the_binding_may_get_those_of_the_other_kind() {
    let mut set = set();
    set["spec"]["template"]["topologyConstraint"] = json!({ "packDomain": "rack" });
    let labels = json!({ "app.kubernetes.io/part-of": "serve" });
    let clique = json!({ "kind": "PodClique", "metadata": { "name": "c", "namespace": "team", "labels": labels },
        "status": { "scheduledReplicas": 1 },
        "spec": { "replicas": 1, "podSpec": { "containers": [{ "name": "c" }] } } });
    let both = [topology("ClusterTopology", "rack", "r"), topology("ClusterTopologyBinding", "rack", "old")];
    let objects = [&both[..], &[set, clique]].concat();
    let is_allowed = |kind: &str, key: &str, old: &Value| {
        denial(&topology(kind, "rack", key), (Some(old), "jane"), &objects) == "allowed"
    };
    assert!(is_allowed("ClusterTopologyBinding", "r", &both[1]));
    assert!(!is_allowed("ClusterTopologyBinding", "other", &both[1]));
    assert!(!is_allowed("ClusterTopology", "old", &both[0]));
}

#[test]
fn a_set_is_validated_by_the_cluster_topology_if_both_kinds_have_the_name() {
    let mut set = set();
    set["spec"]["template"]["topologyConstraint"] = json!({ "packDomain": "rack" });
    let attributes = json!({ "uid": "7", "operation": "CREATE", "namespace": "team", "name": "serve", "object": set });
    let is_allowed = |of_topology: &str, of_binding: &str| {
        let objects =
            [topology("ClusterTopology", of_topology, "k"), topology("ClusterTopologyBinding", of_binding, "k")];
        admit(Webhook::ValidateSet, &request(&attributes), &cluster(managed(), &objects)).denial.is_none()
    };
    assert!(is_allowed("rack", "host"));
    assert!(!is_allowed("host", "rack"));
}
