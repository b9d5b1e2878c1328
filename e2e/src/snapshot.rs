//! Objects as text that is equal in every run, for tests that compare them with the wire format.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The host name of a pod; empty if it has none.
pub fn hostname(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref()).unwrap_or_default()
}

/// Labels, annotations, owner, finalizers and the given fields of an object, as JSON.
///
/// # Panics
/// If the object cannot be serialised, or does not have exactly one owner.
pub fn object<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K, fields: &[&str]) -> String {
    let value = serde_json::to_value(object).expect("JSON");
    let [owner] = object.owner_references() else { panic!("owners: {:?}", object.owner_references()) };
    let mut snapshot: BTreeMap<&str, Value> = BTreeMap::new();
    snapshot.insert("labels", json!(without_node_labels(object.labels())));
    snapshot.insert("annotations", json!(object.annotations()));
    snapshot.insert(
        "owner",
        json!([owner.api_version, owner.kind, owner.name, owner.controller, owner.block_owner_deletion]),
    );
    snapshot.insert("finalizers", json!(object.finalizers()));
    for field in fields {
        snapshot.insert(field, value[field].clone());
    }
    serde_json::to_string_pretty(&snapshot).expect("JSON")
}

/// An admission plugin copies topology labels of the node to scheduled pods; Grove does not write them.
fn without_node_labels(labels: &BTreeMap<String, String>) -> BTreeMap<&String, &String> {
    labels.iter().filter(|(key, _)| !key.starts_with("topology.kubernetes.io/")).collect()
}

/// The fields of a pod's spec that Grove decides.
///
/// # Panics
/// If the pod has no container.
pub fn pod_spec(pod: &Pod) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    let container = &spec.containers[0];
    let snapshot = json!({
        "hostname": spec.hostname,
        "subdomain": spec.subdomain,
        "schedulerName": spec.scheduler_name,
        "schedulingGates": spec.scheduling_gates,
        "schedulingGroup": spec.scheduling_group,
        "restartPolicy": spec.restart_policy,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "env": container.env,
    });
    serde_json::to_string_pretty(&snapshot).expect("JSON")
}

/// The status of an object with its conditions in the order of their types, because several services write them. Placeholders replace
/// times and the current generation.
///
/// # Panics
/// If the object cannot be serialised.
pub fn status<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K) -> String {
    let mut status = serde_json::to_value(object).expect("JSON")["status"].take();
    let generation = json!(object.meta().generation);
    let conditions = status["conditions"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut conditions: Vec<Value> = conditions;
    conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
    let mut parts: Vec<_> = conditions.into_iter().chain([status.take()]).collect();
    for part in &mut parts {
        for time in ["lastTransitionTime", "lastScheduled"] {
            if part.get(time).is_some() {
                part[time] = json!("at some time");
            }
        }
        for time in ["updateStartedAt", "updateEndedAt"] {
            if let Some(field) = part.pointer_mut(&format!("/updateProgress/{time}")) {
                *field = json!("at some time");
            }
        }
        if part.get("observedGeneration") == Some(&generation) {
            part["observedGeneration"] = json!("the present one");
        }
    }
    let mut status = parts.pop().unwrap_or_default();
    status["conditions"] = parts.into();
    serde_json::to_string_pretty(&status).expect("JSON")
}

/// A `PodGang` printed by [`object`], with pod counts in place of pod references: pod names differ between runs.
///
/// # Panics
/// If the text was not printed by [`object`].
pub fn with_reference_counts(text: &str) -> String {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    for group in value["spec"]["podgroups"].as_array_mut().expect("groups") {
        let count = group["podReferences"].as_array().map_or(0, Vec::len);
        group["podReferences"] = json!(format!("{count} pods"));
    }
    serde_json::to_string_pretty(&value).expect("JSON")
}
