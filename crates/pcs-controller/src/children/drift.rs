//! The step for one child: create it if it is missing, otherwise patch exactly the fields that differ.
//!
//! Labels and annotations of cliques and scaling groups follow the set completely. Those of gangs do too, except keys of
//! Grove, which another service may have set. Foreign keys on Services and foreign annotations of autoscalers stay; foreign
//! labels of autoscalers do not. The Go operator behaves in the same way.

use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::GROVE_PREFIX;
use grove_api_types::raw::RawMetricSpec;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::merge::create_merge_patch;
use grove_controller::plan::Step;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::autoscaler::Autoscaler;
use super::{ByName, quantity};

/// Labels or annotations.
type StringMap = BTreeMap<String, String>;

/// The step for a clique. `replicas` is only set at its creation; afterwards it belongs to autoscalers and users.
pub(crate) fn clique(existing: &ByName<PodClique>, mut desired: PodClique) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.spec.replicas = live.spec.replicas;
    patch(live, &desired, difference(live, &desired, |clique| &clique.spec))
}

/// The step for a gang. pclq-controller writes the pod references, so a patch of the pod groups has the observed resource
/// version as its precondition.
pub(crate) fn gang(existing: &ByName<PodGang>, mut desired: PodGang) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    for group in &mut desired.spec.podgroups {
        group.pod_references = references(live, group);
    }
    retain_grove_keys(live, &mut desired);
    let change = changed(live, &desired, difference(live, &desired, |gang| &gang.spec));
    change.map(|change| Step::merge_patch_with_optimistic_lock(live, change))
}

fn references(live: &PodGang, group: &PodGroup) -> Vec<grove_api_types::scheduler_v1alpha1::NamespacedName> {
    let of_same_name = live.spec.podgroups.iter().find(|live| live.name == group.name);
    of_same_name.map(|live| live.pod_references.clone()).unwrap_or_default()
}

/// Retains labels and annotations of Grove that another service has set on the gang.
fn retain_grove_keys(live: &PodGang, desired: &mut PodGang) {
    let is_grove_key = |key: &str| key.starts_with(GROVE_PREFIX);
    retain_keys(live.labels(), desired.labels_mut(), is_grove_key);
    retain_keys(live.annotations(), desired.annotations_mut(), is_grove_key);
}

/// Copies the live entries whose key is `retained` and not in `desired`.
pub(super) fn retain_keys(live: &StringMap, desired: &mut StringMap, retained: impl Fn(&str) -> bool) {
    for (key, value) in live.iter().filter(|(key, _)| retained(key)) {
        desired.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// The step for a scaling group. `replicas` is only set at its creation; afterwards it belongs to autoscalers and users.
pub(crate) fn group(existing: &ByName<PodCliqueScalingGroup>, mut desired: PodCliqueScalingGroup) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.spec.replicas = live.spec.replicas;
    patch(live, &desired, difference(live, &desired, |group| &group.spec))
}

/// The step for an autoscaler. Grove sets no annotations on it, so the live ones stay. The metrics are compared as one list,
/// with quantities compared as numbers.
pub(crate) fn autoscaler(existing: &ByName<Autoscaler>, mut desired: Autoscaler) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.metadata.annotations.clone_from(&live.metadata.annotations);
    if same_metrics(&live.spec.metrics, &desired.spec.metrics) {
        desired.spec.metrics.clone_from(&live.spec.metrics);
    }
    patch(live, &desired, difference(live, &desired, |autoscaler| &autoscaler.spec))
}

fn same_metrics(live: &[RawMetricSpec], desired: &[RawMetricSpec]) -> bool {
    let normalized = |metrics: &[RawMetricSpec]| with_normalized_quantities(json!(metrics));
    normalized(live) == normalized(desired)
}

/// The metrics with the quantities of their targets as numbers.
fn with_normalized_quantities(mut metrics: Value) -> Value {
    let sources = metrics.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for target in sources.flat_map(Map::values_mut).filter_map(|source| source.get_mut("target")) {
        for key in ["value", "averageValue"] {
            let Some(quantity) = target.get_mut(key) else { continue };
            let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
            if let Some(number) = quantity::to_nano(&text) {
                *quantity = number.to_string().into();
            }
        }
    }
    metrics
}

/// The patch for `difference` and for a wrong owner reference. A patch replaces the whole list of owner references, to which
/// others may have added theirs, so such a patch has the observed resource version as its precondition.
pub(super) fn patch<K>(live: &K, desired: &K, difference: Option<Value>) -> Option<Step>
where
    K: Resource<DynamicType = ()>,
{
    let has_precondition = owners(live, desired).is_some();
    let change = changed(live, desired, difference)?;
    Some(if has_precondition {
        Step::merge_patch_with_optimistic_lock(live, change)
    } else {
        Step::merge_patch(live, change)
    })
}

fn changed<K: Resource>(live: &K, desired: &K, difference: Option<Value>) -> Option<Value> {
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
fn difference<K, S: PartialEq>(live: &K, desired: &K, spec: fn(&K) -> &S) -> Option<Value>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let same_metadata = live.labels() == desired.labels() && live.annotations() == desired.annotations();
    let differs = !same_metadata || spec(live) != spec(desired);
    differs.then(|| create_merge_patch(&compared(live), &compared(desired))).flatten()
}

/// The compared fields of a child: labels, annotations and spec.
fn compared<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let spec = serde_json::to_value(object).ok().and_then(|mut value| value.get_mut("spec").map(Value::take));
    let mut metadata = Map::new();
    metadata.insert("labels".into(), json!(object.labels()));
    metadata.insert("annotations".into(), json!(object.annotations()));
    json!({ "metadata": metadata, "spec": spec })
}

/// The existing child of that name, unless it is terminating.
pub(super) fn find<'a, K: Resource>(existing: &'a ByName<K>, desired: &K) -> Option<&'a K> {
    named(existing, desired).filter(|live| !is_terminating(&**live))
}

/// Creates the child if no child has its name. A terminating child still has it, and is recreated after its deletion.
pub(super) fn create_if_absent<K>(existing: &ByName<K>, desired: &K) -> Option<Step>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    named(existing, desired).is_none().then(|| Step::create(desired))
}

fn named<'a, K: Resource>(existing: &'a ByName<K>, desired: &K) -> Option<&'a K> {
    existing.get(desired.meta().name.as_deref()?).map(AsRef::as_ref)
}
