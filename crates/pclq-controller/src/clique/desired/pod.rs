//! One pod of a clique, made from the raw pod spec so that no field of it is lost.

use std::collections::BTreeMap;

use grove_api_types::names::{HeadlessServiceName, Hostname, PodName};
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::{environment, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::env;
use crate::clique::observed::{Lineage, Observed};

/// A pod to be created. The spec is JSON as the user wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Resource)]
#[resource(inherit = Pod)]
pub struct NewPod {
    /// Name, labels, annotations and owner.
    pub metadata: ObjectMeta,
    /// The clique's pod spec and what Grove adds to it.
    pub spec: Map<String, Value>,
}

/// The pod at `index` of the clique.
pub fn pod(seen: &Observed, lineage: &Lineage, name: PodName, index: i32) -> NewPod {
    NewPod { metadata: metadata(seen, lineage, name, index), spec: spec(seen, lineage, index) }
}

fn metadata(seen: &Observed, lineage: &Lineage, name: PodName, index: i32) -> ObjectMeta {
    let clique = &seen.clique;
    let mut labels = clique.labels().clone();
    labels.extend(own_labels(seen, lineage, index));
    let mut annotations = clique.annotations().clone();
    annotations.retain(|key, _| key != labels::LAST_APPLIED && key != labels::GENERATION_HASH);
    ObjectMeta {
        name: Some(name.into()),
        namespace: clique.namespace(),
        labels: Some(labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(controller_owner_reference(clique)),
        ..ObjectMeta::default()
    }
}

/// The labels by which a pod is found all its life. Not the hash of its template: that tells what the pod was made from,
/// whatever the clique is now.
pub fn own_labels(seen: &Observed, lineage: &Lineage, index: i32) -> BTreeMap<String, String> {
    let inherited =
        seen.clique.labels().iter().filter(|(key, _)| labels::is_grove_label(key) && *key != labels::TEMPLATE_HASH);
    let mut own: BTreeMap<_, _> = inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    own.extend(labels::base(&lineage.set));
    own.extend(labels::of([
        (labels::POD_CLIQUE, seen.name().as_str()),
        (labels::SET_REPLICA, &lineage.replica.to_string()),
        (labels::POD_GANG, lineage.gang.as_str()),
        (labels::POD_INDEX, &index.to_string()),
    ]));
    own
}

/// The user's spec, with the host name under which its siblings find the pod. Scheduling gates of others stay; Grove adds
/// its own where the base gang is not scheduled yet.
fn spec(seen: &Observed, lineage: &Lineage, index: i32) -> Map<String, Value> {
    let mut spec = seen.clique.spec.pod_spec.fields().clone();
    let service = HeadlessServiceName::of_replica(&lineage.set, lineage.replica);
    spec.insert("hostname".into(), String::from(Hostname::of_pod(&seen.name(), index)).into());
    spec.insert("subdomain".into(), String::from(service).into());
    if spec.get("schedulerName").and_then(Value::as_str).is_none_or(str::is_empty) {
        spec.insert("schedulerName".into(), seen.default_scheduler.name().into());
    }
    if seen.held_back().is_some() {
        let gates = spec.entry("schedulingGates").or_insert_with(|| json!([]));
        gates.as_array_mut().into_iter().for_each(|gates| gates.push(json!({ "name": labels::SCHEDULING_GATE })));
    }
    environment::prepend(&mut spec, &env::variables(seen, lineage));
    spec
}
