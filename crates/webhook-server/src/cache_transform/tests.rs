//! Random edits of one object of each kind that the rules read affect no other object.

use grove_runtime::caches::DecodedObject;
use grove_test_support::check_watched_kind;
use serde_json::json;

use super::*;
use crate::queues::Queue;

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    let clique = json!({ "roleName": "r", "replicas": 2, "podSpec": { "containers": [{ "name": "c" }] } });
    let template =
        json!({ "cliques": [{ "name": "a", "spec": clique }], "cliqueStartupType": "CliqueStartupTypeInOrder" });
    let set = json!({ "spec": { "replicas": 1, "template": template }, "status": { "replicas": 1 } });
    check_watched_kind!(TransformedObject<PodCliqueSet>, set);
    let clique = json!({ "spec": clique, "status": { "scheduledReplicas": 2 } });
    check_watched_kind!(TransformedObject<PodClique>, clique);
    let group = json!({ "spec": { "replicas": 2, "cliqueNames": ["a"] }, "status": { "replicas": 2 } });
    check_watched_kind!(TransformedObject<PodCliqueScalingGroup>, group);
    let level = json!({ "domain": "rack", "key": "example.com/rack" });
    let topology = json!({ "spec": { "levels": [level] }, "status": { "observedGeneration": 3 } });
    check_watched_kind!(TransformedObject<ClusterTopology>, topology);
    check_watched_kind!(TransformedObject<ClusterTopologyBinding>, topology);
    check_watched_kind!(Queue, json!({ "spec": { "weight": 1 }, "status": { "state": "Open" } }));
}

#[test]
fn a_transformed_object_has_no_managed_fields() {
    let object = json!({ "metadata": { "name": "a", "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] },
        "spec": { "levels": [] } });
    let decoded = DecodedObject::<TransformedObject<ClusterTopology>>::from_json(&object.to_string());
    let DecodedObject::Readable(topology) = decoded else { panic!("{decoded:?}") };
    assert_eq!(topology.meta().managed_fields, None);
}
