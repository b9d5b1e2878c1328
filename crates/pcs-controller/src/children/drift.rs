//! One child at a time: create it where it is missing, patch what differs, and only that.
//!
//! Of cliques and scaling groups, the set says all labels and annotations; of gangs, all but Grove's own. What others put on
//! Services and autoscalers stays, but for labels of autoscalers: this is how the wire format has it.

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

/// What makes the clique of this name what it should be. Its `replicas` are its own from its creation on.
pub(crate) fn clique(existing: &ByName<PodClique>, mut desired: PodClique) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.spec.replicas = live.spec.replicas;
    patch(live, &desired, difference(live, &desired, |clique| &clique.spec))
}

/// What makes the gang of this name what it should be. The references to pods are pclq-controller's, so a change of the
/// groups insists on the version that was seen.
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

/// Annotations and labels of Grove's own that another service keeps on the gang stay.
fn retain_grove_keys(live: &PodGang, desired: &mut PodGang) {
    let groves = |key: &str| key.starts_with(GROVE_PREFIX);
    retain_foreign_keys(live.labels(), desired.labels_mut(), groves);
    retain_foreign_keys(live.annotations(), desired.annotations_mut(), groves);
}

/// Takes those of the live texts over that are `chosen` by their keys and that are not desired otherwise.
pub(super) fn retain_foreign_keys(live: &StringMap, desired: &mut StringMap, chosen: impl Fn(&str) -> bool) {
    for (key, value) in live.iter().filter(|(key, _)| chosen(key)) {
        desired.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// What makes the group of this name what it should be. Its `replicas` are its own from its creation on.
pub(crate) fn group(existing: &ByName<PodCliqueScalingGroup>, mut desired: PodCliqueScalingGroup) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.spec.replicas = live.spec.replicas;
    patch(live, &desired, difference(live, &desired, |group| &group.spec))
}

/// What makes the autoscaler of this name what it should be. Grove annotates none, so that all annotations are others'. The
/// metrics are one list, and quantities in them are compared as numbers.
pub(crate) fn autoscaler(existing: &ByName<Autoscaler>, mut desired: Autoscaler) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    desired.metadata.annotations.clone_from(&live.metadata.annotations);
    if same_metrics(&live.spec.metrics, &desired.spec.metrics) {
        desired.spec.metrics.clone_from(&live.spec.metrics);
    }
    patch(live, &desired, difference(live, &desired, |autoscaler| &autoscaler.spec))
}

fn same_metrics(live: &[RawMetricSpec], desired: &[RawMetricSpec]) -> bool {
    let plain = |metrics: &[RawMetricSpec]| with_plain_quantities(json!(metrics));
    plain(live) == plain(desired)
}

/// The value with the quantities of metrics' targets in one spelling.
fn with_plain_quantities(mut metrics: Value) -> Value {
    let sources = metrics.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for target in sources.flat_map(Map::values_mut).filter_map(|source| source.get_mut("target")) {
        for key in ["value", "averageValue"] {
            let Some(quantity) = target.get_mut(key) else { continue };
            let spelled = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
            if let Some(number) = quantity::to_nano(&spelled) {
                *quantity = number.to_string().into();
            }
        }
    }
    metrics
}

/// The step for a difference in what is compared, and in how the child refers to its owner. The owners are one list, of
/// which others may have a part, so a change of it insists on the version that was seen.
pub(super) fn patch<K>(live: &K, desired: &K, difference: Option<Value>) -> Option<Step>
where
    K: Resource<DynamicType = ()>,
{
    let guarded = owners(live, desired).is_some();
    let change = changed(live, desired, difference)?;
    Some(if guarded { Step::merge_patch_with_optimistic_lock(live, change) } else { Step::merge_patch(live, change) })
}

fn changed<K: Resource>(live: &K, desired: &K, difference: Option<Value>) -> Option<Value> {
    let Some(owners) = owners(live, desired) else { return difference };
    let mut change = difference.unwrap_or_else(|| json!({}));
    change["metadata"]["ownerReferences"] = json!(owners);
    Some(change)
}

/// All owners of the child, if its reference to ours is not what it should be.
fn owners<K: Resource>(live: &K, desired: &K) -> Option<Vec<OwnerReference>> {
    let ours = desired.owner_references();
    if ours.iter().all(|ours| live.owner_references().contains(ours)) {
        return None;
    }
    let others = live.owner_references().iter().filter(|other| ours.iter().all(|ours| ours.uid != other.uid));
    Some(others.chain(ours).cloned().collect())
}

/// How a child differs in labels, annotations and spec. Most children of most reconciles do not, and JSON is only made of
/// those that do.
fn difference<K, S: PartialEq>(live: &K, desired: &K, spec: fn(&K) -> &S) -> Option<Value>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let same_texts = live.labels() == desired.labels() && live.annotations() == desired.annotations();
    let differs = !same_texts || spec(live) != spec(desired);
    differs.then(|| create_merge_patch(&compared(live), &compared(desired))).flatten()
}

/// What is compared of a child beside its owner: labels, annotations and spec.
fn compared<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let spec = serde_json::to_value(object).ok().and_then(|mut value| value.get_mut("spec").map(Value::take));
    let mut metadata = Map::new();
    metadata.insert("labels".into(), json!(object.labels()));
    metadata.insert("annotations".into(), json!(object.annotations()));
    json!({ "metadata": metadata, "spec": spec })
}

/// The child that is there and stays.
pub(super) fn find<'a, K: Resource>(existing: &'a ByName<K>, desired: &K) -> Option<&'a K> {
    named(existing, desired).filter(|live| !is_terminating(&**live))
}

/// A child that is being deleted still holds its name: its successor is created when it has gone.
pub(super) fn create_if_absent<K>(existing: &ByName<K>, desired: &K) -> Option<Step>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    named(existing, desired).is_none().then(|| Step::create(desired))
}

fn named<'a, K: Resource>(existing: &'a ByName<K>, desired: &K) -> Option<&'a K> {
    existing.get(desired.meta().name.as_deref()?).map(AsRef::as_ref)
}
