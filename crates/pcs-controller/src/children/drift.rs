//! The patch of a live child: exactly the fields that differ from the desired child.
//!
//! Labels and annotations of cliques and scaling groups follow the set completely. Those of gangs do too, except keys of
//! Grove, which another service may have set. Foreign keys on Services and foreign annotations of autoscalers stay; foreign
//! labels of autoscalers do not. The Go operator behaves in the same way.

use std::collections::BTreeMap;

use grove_api_types::annotation_value;
use grove_api_types::labels::{GENERATION_HASH, is_grove_label};
use grove_controller::merge_patch::create_merge_patch;
use grove_controller::plan::Step;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

/// Labels or annotations.
type StringMap = BTreeMap<String, String>;

/// Copies the live entries whose key is `retained` and not in `desired`.
pub(crate) fn retain_keys(live: &StringMap, desired: &mut StringMap, retained: impl Fn(&str) -> bool) {
    for (key, value) in live.iter().filter(|(key, _)| retained(key)) {
        desired.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Retains the live values of annotations for other services that are equal to the desired ones, and differ from them only as text. So an
/// upgrade of pcs-controller rewrites no value.
pub(crate) fn retain_equal_values(live: &StringMap, desired: &mut StringMap) {
    for key in annotation_value::KEYS {
        if let (Some(live), Some(desired)) = (live.get(key), desired.get_mut(key))
            && annotation_value::is_equal(live, desired)
        {
            desired.clone_from(live);
        }
    }
}

/// Restores Grove's labels, the owner reference and these fields. Labels of others stay.
pub(crate) fn restored<K>(live: &K, mut desired: K, fields: fn(&K) -> Value) -> Option<Step>
where
    K: Resource<DynamicType = ()>,
{
    retain_keys(live.labels(), desired.labels_mut(), |key| !is_grove_label(key));
    let compared = |object: &K| {
        let mut compared = fields(object);
        compared["metadata"]["labels"] = json!(object.labels());
        compared
    };
    let difference = create_merge_patch(&compared(live), &compared(&desired));
    patch(live, &desired, difference)
}

/// The patch for `difference` and for a wrong owner reference. A patch replaces the whole list of owner references, to which
/// others may have added theirs, so such a patch has the observed resource version as its precondition. So has a patch with another template: it
/// replaces the template of an update only if the observed status shows how far that update is.
pub(crate) fn patch<K>(live: &K, desired: &K, difference: Option<Value>) -> Option<Step>
where
    K: Resource<DynamicType = ()>,
{
    let has_precondition = owners(live, desired).is_some() || has_other_template(live, desired);
    let change = change_with_owners(live, desired, difference)?;
    Some(if has_precondition {
        Step::merge_patch_with_optimistic_lock(live, change)
    } else {
        Step::merge_patch(live, change)
    })
}

fn has_other_template<K: Resource>(live: &K, desired: &K) -> bool {
    live.annotations().get(GENERATION_HASH) != desired.annotations().get(GENERATION_HASH)
}

/// The change, with the corrected owner references if they are wrong.
pub(crate) fn change_with_owners<K: Resource>(live: &K, desired: &K, difference: Option<Value>) -> Option<Value> {
    let Some(owners) = owners(live, desired) else { return difference };
    let mut change = difference.unwrap_or_else(|| json!({}));
    change["metadata"]["ownerReferences"] = json!(owners);
    Some(change)
}

/// The corrected list of owner references, if the reference to the child's owner is missing or wrong.
fn owners<K: Resource>(live: &K, desired: &K) -> Option<Vec<OwnerReference>> {
    let ours = desired.owner_references();
    if ours.iter().all(|ours| live.owner_references().contains(ours)) {
        return None;
    }
    let others = live.owner_references().iter().filter(|other| ours.iter().all(|ours| ours.uid != other.uid));
    Some(others.chain(ours).cloned().collect())
}

/// The merge patch from the live to the desired labels, annotations and spec. Most children are equal, and only unequal ones
/// are converted to JSON.
pub(crate) fn difference<K, S>(live: &K, desired: &K, spec: fn(&K) -> &S) -> Option<Value>
where
    K: Resource<DynamicType = ()>,
    S: PartialEq + Serialize,
{
    let same_metadata = live.labels() == desired.labels() && live.annotations() == desired.annotations();
    if same_metadata && spec(live) == spec(desired) {
        return None;
    }
    let compared = |object| ComparedFields {
        metadata: ComparedMetadata { labels: K::labels(object), annotations: K::annotations(object) },
        spec: spec(object),
    };
    create_merge_patch(&compared(live), &compared(desired))
}

/// The compared fields of a child.
#[derive(Serialize)]
struct ComparedFields<'a, S> {
    metadata: ComparedMetadata<'a>,
    spec: &'a S,
}

#[derive(Serialize)]
struct ComparedMetadata<'a> {
    labels: &'a StringMap,
    annotations: &'a StringMap,
}
