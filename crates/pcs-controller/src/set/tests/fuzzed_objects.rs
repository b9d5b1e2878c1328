//! Random edits of one object of each kind that this service watches affect no other object.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::{Cache, DecodedObject, InformerOptions};
use grove_test_support::list_items::{self, Key};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::set::desired::{SlimAutoscaler, SlimService};

/// Checks edits of an object with this spec and status.
fn check<K: Resource<DynamicType = ()> + DeserializeOwned>(spec: &Value, status: &Value) {
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "o", "uid": "ou", "controller": true });
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "spec": spec, "status": status,
        "metadata": {
            "name": "edited", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "app.kubernetes.io/part-of": "o" }, "annotations": { "k": "v" }, "finalizers": ["f"],
            "ownerReferences": [owner],
            "managedFields": [{ "manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z", "fieldsV1": { "f:spec": {} } }],
        },
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

fn conditions() -> Value {
    json!([{ "type": "Available", "status": "True", "reason": "R", "message": "m", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z" }])
}

fn clique_spec() -> Value {
    json!({ "roleName": "r", "replicas": 2, "minAvailable": 1, "startsAfter": ["a"],
        "podSpec": { "containers": [{ "name": "c", "image": "i" }] },
        "autoScalingConfig": { "minReplicas": 1, "maxReplicas": 4, "metrics": [] } })
}

#[test]
fn an_edited_set_affects_no_other_set() {
    let template = json!({
        "cliques": [{ "name": "a", "labels": { "k": "v" }, "spec": clique_spec() }],
        "podCliqueScalingGroups": [{ "name": "g", "cliqueNames": ["a"], "replicas": 2, "minAvailable": 1 }],
        "cliqueStartupType": "CliqueStartupTypeInOrder", "terminationDelay": "4h",
        "headlessServiceConfig": { "publishNotReadyAddresses": true },
        "resourceSharing": [{ "name": "r", "scope": "AllReplicas" }],
    });
    let gangs = json!([{ "name": "a", "phase": "Running", "conditions": conditions() }]);
    check::<PodCliqueSet>(
        &json!({ "replicas": 2, "updateStrategy": { "type": "OnDelete" }, "template": template }),
        &json!({ "replicas": 2, "observedGeneration": 3, "conditions": conditions(), "podGangStatuses": gangs,
            "lastErrors": [{ "code": "E", "description": "d", "observedAt": "2026-01-02T03:04:05Z" }] }),
    );
}

#[test]
fn an_edited_clique_affects_no_other_clique() {
    check::<PodClique>(&clique_spec(), &json!({ "replicas": 2, "readyReplicas": 1, "conditions": conditions() }));
}

#[test]
fn an_edited_group_affects_no_other_group() {
    let progress = json!({ "updateStartedAt": "2026-01-02T03:04:05Z", "podCliqueSetGenerationHash": "h" });
    check::<PodCliqueScalingGroup>(
        &json!({ "replicas": 2, "minAvailable": 1, "cliqueNames": ["a"] }),
        &json!({ "replicas": 2, "availableReplicas": 1, "conditions": conditions(), "updateProgress": progress }),
    );
}

#[test]
fn an_edited_gang_affects_no_other_gang() {
    let group = json!({ "name": "a", "minReplicas": 1, "podReferences": [{ "namespace": "ns", "name": "p" }] });
    check::<PodGang>(
        &json!({ "podgroups": [group], "priorityClassName": "p" }),
        &json!({ "phase": "Running", "conditions": conditions(), "placementScore": 0.5 }),
    );
}

#[test]
fn an_edited_service_affects_no_other_service() {
    check::<SlimService>(
        &json!({ "clusterIP": "None", "ports": [{ "port": 80, "targetPort": "http" }], "selector": { "k": "v" } }),
        &json!({ "conditions": conditions() }),
    );
}

#[test]
fn an_edited_autoscaler_affects_no_other_autoscaler() {
    let target = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "a" });
    let metric = json!({ "type": "Resource", "resource": { "name": "cpu" } });
    check::<SlimAutoscaler>(
        &json!({ "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4, "metrics": [metric] }),
        &json!({ "currentReplicas": 1, "conditions": [], "lastScaleTime": "2026-01-02T03:04:05Z" }),
    );
}
