//! One pod of a clique. It is built from the raw pod spec, so that no field is lost.

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
use crate::clique::observed::{CliqueIdentity, Observed};

/// A pod to create. The spec is JSON as the user wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct NewPod {
    /// Name, labels, annotations and owner.
    pub(crate) metadata: ObjectMeta,
    /// The clique's pod spec and what Grove adds to it.
    pub(crate) spec: Map<String, Value>,
}

/// The pod at `index` of the clique.
pub(crate) fn pod(observed: &Observed, identity: &CliqueIdentity, name: PodName, index: i32) -> NewPod {
    NewPod { metadata: metadata(observed, identity, name, index), spec: spec(observed, identity, index) }
}

fn metadata(observed: &Observed, identity: &CliqueIdentity, name: PodName, index: i32) -> ObjectMeta {
    let clique = &observed.clique;
    let mut labels = clique.labels().clone();
    labels.extend(own_labels(observed, identity, index));
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

/// The labels that identify a pod. The hash of its template is not one of them: it describes the template that the pod was
/// created from, and a later change of the clique does not change it.
pub(crate) fn own_labels(observed: &Observed, identity: &CliqueIdentity, index: i32) -> BTreeMap<String, String> {
    let inherited =
        observed.clique.labels().iter().filter(|(key, _)| labels::is_grove_label(key) && *key != labels::TEMPLATE_HASH);
    let mut own: BTreeMap<_, _> = inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    own.extend(labels::base(&identity.set));
    own.extend(labels::of([
        (labels::POD_CLIQUE, observed.name().as_str()),
        (labels::SET_REPLICA, &identity.replica.to_string()),
        (labels::POD_GANG, identity.gang.as_str()),
        (labels::POD_INDEX, &index.to_string()),
    ]));
    own
}

/// The user's spec with the hostname and subdomain of the pod, the default scheduler, Grove's environment variables, and
/// Grove's scheduling gate while the base gang is not scheduled. The user's scheduling gates stay.
fn spec(observed: &Observed, identity: &CliqueIdentity, index: i32) -> Map<String, Value> {
    let mut spec = observed.clique.spec.pod_spec.fields().clone();
    let service_name = HeadlessServiceName::of_replica(&identity.set, identity.replica);
    spec.insert("hostname".into(), String::from(Hostname::of_pod(&observed.name(), index)).into());
    spec.insert("subdomain".into(), String::from(service_name).into());
    if spec.get("schedulerName").and_then(Value::as_str).is_none_or(str::is_empty) {
        spec.insert("schedulerName".into(), observed.default_scheduler.name().into());
    }
    if observed.gating_reason().is_some() {
        let gates = spec.entry("schedulingGates").or_insert_with(|| json!([]));
        // The API server rejects a pod with the same gate twice. A template may contain it.
        let is_gate = |gate: &Value| gate["name"] == labels::SCHEDULING_GATE;
        let has_gate = gates.as_array().is_some_and(|gates| gates.iter().any(is_gate));
        if let Some(gates) = gates.as_array_mut().filter(|_| !has_gate) {
            gates.push(json!({ "name": labels::SCHEDULING_GATE }));
        }
    }
    environment::prepend(&mut spec, &env::variables(observed, identity));
    spec
}
