//! Objects as text that is the same in every run, for tests that compare them with the wire format.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The host name of a pod; empty for none.
pub fn hostname(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref()).unwrap_or_default()
}

/// Labels, annotations, owner and the named fields of an object, as text that is the same in every run.
///
/// # Panics
/// When the object does not serialise, or has not exactly one owner.
pub fn object<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K, fields: &[&str]) -> String {
    let value = serde_json::to_value(object).expect("an object serialises");
    let [owner] = object.owner_references() else { panic!("owners: {:?}", object.owner_references()) };
    let mut shown: BTreeMap<&str, Value> = BTreeMap::new();
    shown.insert("labels", json!(own_labels(object.labels())));
    shown.insert("annotations", json!(object.annotations()));
    shown.insert(
        "owner",
        json!([owner.api_version, owner.kind, owner.name, owner.controller, owner.block_owner_deletion]),
    );
    shown.insert("finalizers", json!(object.finalizers()));
    for field in fields {
        shown.insert(field, value[field].clone());
    }
    serde_json::to_string_pretty(&shown).expect("JSON")
}

/// Stock admission copies labels of the node to bound pods; they are none of ours.
fn own_labels(labels: &BTreeMap<String, String>) -> BTreeMap<&String, &String> {
    labels.iter().filter(|(key, _)| !key.starts_with("topology.kubernetes.io/")).collect()
}

/// The fields of a pod's spec that Grove decides about.
///
/// # Panics
/// When the pod has no container.
pub fn pod_spec(pod: &Pod) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    let container = &spec.containers[0];
    let shown = json!({
        "hostname": spec.hostname,
        "subdomain": spec.subdomain,
        "schedulerName": spec.scheduler_name,
        "schedulingGates": spec.scheduling_gates,
        "schedulingGroup": spec.scheduling_group,
        "restartPolicy": spec.restart_policy,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "env": container.env,
    });
    serde_json::to_string_pretty(&shown).expect("JSON")
}

/// The status of an object, without the times in it and the number of its generation.
///
/// # Panics
/// When the object does not serialise.
pub fn status<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K) -> String {
    let mut status = serde_json::to_value(object).expect("an object serialises")["status"].take();
    let generation = json!(object.meta().generation);
    let conditions = status["conditions"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut parts: Vec<_> = conditions.into_iter().chain([status.take()]).collect();
    for part in &mut parts {
        if part.get("lastTransitionTime").is_some() {
            part["lastTransitionTime"] = json!("at some time");
        }
        if part.get("observedGeneration") == Some(&generation) {
            part["observedGeneration"] = json!("the present one");
        }
    }
    let mut status = parts.pop().unwrap_or_default();
    status["conditions"] = parts.into();
    serde_json::to_string_pretty(&status).expect("JSON")
}

/// The gang as [`object`] shows it, with the number of references in their place: names of pods are no two runs' alike.
///
/// # Panics
/// When the text is none of [`object`]'s.
pub fn with_references_counted(text: &str) -> String {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    for group in value["spec"]["podgroups"].as_array_mut().expect("groups") {
        let count = group["podReferences"].as_array().map_or(0, Vec::len);
        group["podReferences"] = json!(format!("{count} pods"));
    }
    serde_json::to_string_pretty(&value).expect("JSON")
}
