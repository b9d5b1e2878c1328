//! Random edits of one object of each kind that the rules read affect no other object.

use grove_runtime::caches::{Cache, DecodedObject, InformerOptions};
use grove_test_support::list_items::{self, Key};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn check<K: Resource<DynamicType = ()> + DeserializeOwned>(spec: &Value, status: &Value) {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "spec": spec, "status": status,
        "metadata": { "name": "edited", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": { PART_OF: "llm" }, "annotations": { PROTECTION_DISABLED: "true" },
            "managedFields": [{ "manager": "m", "time": "9999-12-31T23:59:59Z" }] },
    });
    list_items::check(&object, |items: &[String], keys: &[Key]| {
        let (cache, writer) = Cache::<K>::with_writer(InformerOptions::default());
        writer.replace_decoded(items.iter().map(|item| DecodedObject::from_json(item)).collect());
        let state = |(namespace, name): &Key| {
            cache.contains(namespace, name).then(|| cache.unreadable(namespace, name).is_none())
        };
        keys.iter().map(state).collect()
    });
}

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    let clique = json!({ "roleName": "r", "replicas": 2, "podSpec": { "containers": [{ "name": "c" }] } });
    let template =
        json!({ "cliques": [{ "name": "a", "spec": clique }], "cliqueStartupType": "CliqueStartupTypeInOrder" });
    check::<TransformedObject<PodCliqueSet>>(
        &json!({ "replicas": 1, "template": template }),
        &json!({ "replicas": 1 }),
    );
    check::<TransformedObject<PodClique>>(&clique, &json!({ "scheduledReplicas": 2 }));
    let group = json!({ "replicas": 2, "cliqueNames": ["a"] });
    check::<TransformedObject<PodCliqueScalingGroup>>(&group, &json!({ "replicas": 2 }));
    let levels = json!({ "levels": [{ "domain": "rack", "key": "example.com/rack" }] });
    check::<TransformedObject<ClusterTopology>>(&levels, &json!({ "observedGeneration": 3 }));
    check::<TransformedObject<ClusterTopologyBinding>>(&levels, &json!({ "observedGeneration": 3 }));
    check::<Queue>(&json!({ "weight": 1 }), &json!({ "state": "Open" }));
}

#[test]
fn a_transformed_object_has_no_managed_fields() {
    let object = json!({ "metadata": { "name": "a", "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] },
        "spec": { "levels": [] } });
    let decoded = DecodedObject::<TransformedObject<ClusterTopology>>::from_json(&object.to_string());
    let DecodedObject::Readable(topology) = decoded else { panic!("{decoded:?}") };
    assert_eq!(topology.meta().managed_fields, None);
}
