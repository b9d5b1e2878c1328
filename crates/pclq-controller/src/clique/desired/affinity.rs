//! The pod affinity that expresses the topology constraints of the gang in the default scheduler. It is added to the affinity of the user.

use std::collections::BTreeMap;

use grove_api_types::labels;
use grove_api_types::pack_affinity::{PackAffinity, Scope};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::clique::observed::Observed;
use crate::gangs::incarnation;
use crate::observed::CliqueIdentity;

/// The affinity to the pods of a narrower scope outweighs that to ten times as many pods of the next wider one.
const fn weight(scope: Scope) -> i32 {
    match scope {
        Scope::Gang => 1,
        Scope::Replica => 10,
        Scope::Clique => 100,
    }
}

/// Adds the affinity of the clique to a pod spec. No pod is created while the annotation cannot be read.
pub(super) fn add(spec: &mut Map<String, Value>, observed: &Observed, identity: &CliqueIdentity) {
    let Ok(Some(affinity)) = PackAffinity::of_annotation(&observed.clique) else { return };
    let term = |scope: Scope, key: &str| json!({ "topologyKey": key, "labelSelector": { "matchLabels": pods_of(scope, observed, identity) } });
    let required = affinity.required.iter().flat_map(|one| one.keys.iter().map(|key| term(one.scope, key)));
    let required: Vec<Value> = required.collect();
    let preferred = affinity.preferred.iter();
    let preferred = preferred
        .map(|one| json!({ "weight": weight(one.scope), "podAffinityTerm": term(one.scope, &one.key) }))
        .collect();
    let mut merged = take_object(spec, "affinity");
    let mut pod_affinity = take_object(&mut merged, "podAffinity");
    append(&mut pod_affinity, "requiredDuringSchedulingIgnoredDuringExecution", required);
    append(&mut pod_affinity, "preferredDuringSchedulingIgnoredDuringExecution", preferred);
    merged.insert("podAffinity".to_owned(), pod_affinity.into());
    spec.insert("affinity".to_owned(), merged.into());
}

/// The labels of the pods of the scope in the same incarnation of the gang.
fn pods_of(scope: Scope, observed: &Observed, identity: &CliqueIdentity) -> BTreeMap<String, String> {
    let mut selected = labels::of([(labels::POD_GANG, identity.gang.as_str())]);
    selected.extend(
        incarnation(&observed.clique).map(|number| (labels::POD_GANG_INCARNATION.to_owned(), number.to_string())),
    );
    let of_clique = observed.clique.labels();
    match scope {
        Scope::Gang => {}
        Scope::Replica => {
            let keys = [labels::SCALING_GROUP, labels::SCALING_GROUP_REPLICA];
            let values = keys.into_iter().filter_map(|key| Some((key, of_clique.get(key)?.as_str())));
            selected.extend(labels::of(values));
        }
        Scope::Clique => selected.extend(labels::of([(labels::POD_CLIQUE, observed.name().as_str())])),
    }
    selected
}

/// Adds the terms behind those of the user.
fn append(affinity: &mut Map<String, Value>, list: &str, mut terms: Vec<Value>) {
    if terms.is_empty() {
        return;
    }
    if let Some(Value::Array(existing)) = affinity.get_mut(list) {
        existing.append(&mut terms);
    } else {
        affinity.insert(list.to_owned(), terms.into());
    }
}

/// Takes the object out of this field. A missing or null field counts as an empty object.
fn take_object(parent: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match parent.remove(field) {
        Some(Value::Object(object)) => object,
        Some(_) | None => Map::new(),
    }
}
