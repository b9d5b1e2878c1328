//! The shared claims as objects: the object to create, and the metadata of an existing claim that Grove restores.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::labels::{self, Component, GROVE_PREFIX, LAST_APPLIED, is_grove_label};
use crate::names::{ClaimOwner, PodCliqueSetName, ResourceClaimName};
use crate::ownership::controller_owner_reference;
use crate::resource_claim::{ClaimTemplate, ResourceClaim};

/// The labels of a claim. `replica` is the replica of its owner; `None` if all replicas share the claim.
pub fn claim_labels(set: &PodCliqueSetName, owner: ClaimOwner<'_>, replica: Option<i32>) -> BTreeMap<String, String> {
    let mut all = labels::base(set);
    all.extend(labels::of([(labels::COMPONENT, Component::ResourceClaim.value())]));
    let replica = replica.map(|replica| replica.to_string());
    let replica_label = match owner {
        ClaimOwner::Set(_) => labels::SET_REPLICA,
        ClaimOwner::Group(name) => {
            all.extend(labels::of([(labels::SCALING_GROUP, name.as_str())]));
            labels::SCALING_GROUP_REPLICA
        }
        ClaimOwner::Clique(name) => {
            all.extend(labels::of([(labels::POD_CLIQUE, name.as_str())]));
            labels::POD_INDEX
        }
    };
    all.extend(labels::of(replica.iter().map(|replica| (replica_label, replica.as_str()))));
    all
}

/// The metadata of a claim without what its template adds.
pub fn claim_metadata<Owner>(owner: &Owner, name: &ResourceClaimName, labels: BTreeMap<String, String>) -> ObjectMeta
where
    Owner: Resource<DynamicType = ()>,
{
    ObjectMeta {
        name: Some(name.to_string()),
        namespace: owner.namespace(),
        labels: Some(labels),
        owner_references: Some(controller_owner_reference(owner)),
        ..ObjectMeta::default()
    }
}

/// The claim to create: `metadata` with the labels and annotations of the template, and the spec of the template. A label of `metadata` has
/// precedence. Grove's own keys in a template have no effect.
pub fn resource_claim(metadata: ObjectMeta, template: &ClaimTemplate) -> ResourceClaim {
    let foreign = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        map.iter().filter(|(key, _)| !is_reserved_key(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut all = foreign(&template.labels);
    all.extend(metadata.labels.clone().unwrap_or_default());
    let annotations = Some(foreign(&template.annotations)).filter(|annotations| !annotations.is_empty());
    ResourceClaim {
        metadata: ObjectMeta { labels: Some(all), annotations, ..metadata },
        spec: Some(template.spec.clone()),
    }
}

/// Whether a label or an annotation of a template has no effect on claims.
pub fn is_reserved_key(key: &str) -> bool {
    key.starts_with(GROVE_PREFIX) || key == LAST_APPLIED
}

/// Whether a claim has this label only as Grove sets it. A template may add `app.kubernetes.io/name`, which Grove sets on no claim.
pub fn is_own_label(key: &str) -> bool {
    is_grove_label(key) && key != labels::NAME
}

/// The merge patch that restores Grove's labels and the owner reference of an existing claim; `None` if none is lost. Everything else of an
/// existing claim stays. The patch replaces the list of owner references, so send it with the observed resource version.
pub fn drift(live: &ResourceClaim, desired: &ObjectMeta) -> Option<Value> {
    let mut metadata = serde_json::Map::new();
    let differs = |(key, value): &(&String, &String)| is_own_label(key) && live.labels().get(*key) != Some(*value);
    let lost: BTreeMap<_, _> = desired.labels.iter().flatten().filter(differs).collect();
    if !lost.is_empty() {
        metadata.insert("labels".to_owned(), json!(lost));
    }
    if let Some(references) = lost_owner_references(live, desired.owner_references.as_deref().unwrap_or_default()) {
        metadata.insert("ownerReferences".to_owned(), json!(references));
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

fn lost_owner_references(live: &ResourceClaim, ours: &[OwnerReference]) -> Option<Vec<OwnerReference>> {
    let references = live.owner_references();
    if ours.iter().all(|ours| references.contains(ours)) {
        return None;
    }
    let others = references.iter().filter(|other| ours.iter().all(|ours| ours.uid != other.uid));
    Some(others.chain(ours).cloned().collect())
}
