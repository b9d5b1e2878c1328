//! Laws that hold for every object, those of the rows and those that nobody would write.

use std::sync::LazyLock;

use grove_api_types::admission::{
    Attributes, Authorization, Facts, Operation, ParentSet, ScaleTarget, ValidationResult, authorize, default,
    default_cluster_topology, default_pod_clique_set, validate_cluster_topology_create,
    validate_cluster_topology_update, validate_create, validate_scale, validate_topology_binding_create,
    validate_topology_binding_update, validate_update,
};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::facts::{of_sets, of_topologies};
use grove_test_support::rows::{Changes, Known, changed};

/// A result is told within these bounds, whatever is wrong.
const LONGEST_MESSAGE: usize = 20 * 1024;
const WARNINGS: (usize, usize) = (16, 256);

/// When an object was deleted.
static LEFT: LazyLock<Time> = LazyLock::new(|| serde_json::from_str("\"2026-01-01T00:00:00Z\"").expect("a time"));

/// The object as a type of ours.
pub(crate) fn typed<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}

/// The object with its defaults.
pub(crate) fn patched(object: &Value, old: Option<&Value>, facts: &Facts) -> Value {
    let changes = default_pod_clique_set(object, old, facts);
    let patch: json_patch::Patch = serde_json::from_value(json!(changes)).expect("a patch");
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("the patch fits the object");
    object
}

/// Circumstances that a set may meet later.
pub(crate) fn later() -> Vec<Known> {
    let known = |text: &str| serde_json::from_str(text).expect("what is known");
    vec![
        known(r#"{"topologyOff": true}"#),
        known(r#"{"mnnvlOff": true}"#),
        known(r#"{"scheduled": true}"#),
        known(r#"{"defaultScheduler": "volcano", "noQueues": true}"#),
        known(r#"{"defaultScheduler": "kai-scheduler"}"#),
        known(r#"{"without": ["default-scheduler", "kai-scheduler"]}"#),
    ]
}

fn law(holds: bool, says: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(says()) }
}

/// No answer is longer than can be carried.
fn told(result: &ValidationResult) -> Result<(), String> {
    let message = result.message().unwrap_or_default();
    law(message.len() <= LONGEST_MESSAGE, || format!("a message of {} bytes", message.len()))?;
    let (count, length) = WARNINGS;
    let fits = result.warnings.len() <= count && result.warnings.iter().all(|it| it.chars().count() <= length);
    law(fits, || format!("warnings that nobody hands on: {:?}", result.warnings))
}

fn accepts(result: &ValidationResult, says: &str) -> Result<(), String> {
    law(result.is_accepted(), || format!("{says}: {:?}", result.message()))
}

/// The laws of sets. Says whether the object is one.
pub(crate) fn of_set(new: &Value, old: &Value, known: &Known) -> Result<bool, String> {
    let facts = of_sets(known);
    let Some(set) = typed::<PodCliqueSet>(new) else {
        law(default_pod_clique_set(new, None, &facts).is_empty(), || "what is no set is changed".to_owned())?;
        return Ok(false);
    };
    let once = patched(new, None, &facts);
    law(patched(&once, None, &facts) == once, || "defaults are filled in twice".to_owned())?;
    let defaulted = typed::<PodCliqueSet>(&once).ok_or("a set with its defaults is no set")?;
    let by_type = default::pod_clique_set(&set);
    law(is_terminating(&set) || by_type.spec == defaulted.spec, || {
        "patches and types differ in their defaults".to_owned()
    })?;
    law(default::pod_clique_set(&by_type) == by_type, || "typed defaults are filled in twice".to_owned())?;
    let created = validate_create(&set, &facts);
    told(&created)?;
    if created.is_accepted() {
        accepts(&validate_create(&defaulted, &facts), "it is refused for its defaults")?;
    }
    accepts(&validate_update(&set, &set, &facts), "it may not stay as it is")?;
    accepts(&validate_update(&by_type, &set, &facts), "its defaults may not be stored")?;
    kept_elsewhere(&set, &facts)?;
    told(&validate_scale(ScaleTarget::Set(&set), i32::MAX, &facts))?;
    for fewer in [0, set.spec.replicas.saturating_sub(1).max(0)] {
        accepts(&validate_scale(ScaleTarget::Set(&set), fewer, &facts), "it may not be scaled down")?;
    }
    if let Some(before) = typed::<PodCliqueSet>(old) {
        let stored = patched(new, Some(old), &facts);
        let then = patched(&stored, Some(old), &facts);
        law(then == stored, || "defaults of an update are filled in twice".to_owned())?;
        told(&validate_update(&set, &before, &facts))?;
    }
    Ok(true)
}

/// What is stored can be changed elsewhere, deleted and released.
fn kept_elsewhere(set: &PodCliqueSet, facts: &Facts) -> Result<(), String> {
    let mut other = set.clone();
    "elsewhere".clone_into(&mut other.spec.template.priority_class_name);
    accepts(&validate_update(&other, set, facts), "another field may not change")?;
    let mut held = set.clone();
    held.metadata.finalizers = Some(vec!["a/b".to_owned()]);
    accepts(&validate_update(set, &held, facts), "a finalizer may not go")?;
    other.metadata.deletion_timestamp = Some(LEFT.clone());
    other.spec.template.cliques.clear();
    accepts(&validate_update(&other, set, facts), "it may not be deleted")
}

/// The laws of topologies of both kinds. Says whether the object is one.
pub(crate) fn of_topology(new: &Value, old: &Value, known: &Known) -> Result<bool, String> {
    let facts = of_topologies(known);
    let patch = |object: &Value| {
        let patch: json_patch::Patch =
            serde_json::from_value(json!(default_cluster_topology(object))).expect("a patch");
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).expect("the patch fits the object");
        object
    };
    let once = patch(new);
    law(patch(&once) == once, || "levels are put in order twice".to_owned())?;
    let mut is_one = false;
    if let Some(topology) = typed::<ClusterTopology>(new) {
        is_one = true;
        told(&validate_cluster_topology_create(&topology, &facts))?;
        accepts(&validate_cluster_topology_update(&topology, &topology, &facts), "it may not stay as it is")?;
        if let Some(before) = typed(old) {
            told(&validate_cluster_topology_update(&topology, &before, &facts))?;
        }
    }
    if let Some(binding) = typed::<ClusterTopologyBinding>(new) {
        is_one = true;
        told(&validate_topology_binding_create(&binding, &facts))?;
        accepts(&validate_topology_binding_update(&binding, &binding, &facts), "it may not stay as it is")?;
        if let Some(before) = typed(old) {
            told(&validate_topology_binding_update(&binding, &before, &facts))?;
        }
    }
    Ok(is_one)
}

/// The laws of what Grove manages: nobody stands in the way of a finalizer that goes, of a status, or of a scale.
pub(crate) fn of_managed(
    new: &Value,
    old: &Value,
    (set, replicas): (Option<&PodCliqueSet>, i32),
) -> Result<bool, String> {
    let ask = |kind: &str, object: &Value, old: &Value| -> Authorization {
        let (object, old_object) = (Some(object), Some(old));
        let request =
            Attributes { operation: Operation::Update, kind, resource: "team/it", user: "alice", object, old_object };
        authorize(&request, ParentSet::Found(None), &std::collections::BTreeSet::new())
    };
    drop(ask("PodClique", new, old));
    let without = |change: (&str, Value)| changed(new, &Changes::from([(change.0.to_owned(), change.1)]));
    let is_object = new.as_object().is_some_and(|fields| fields.get("metadata").is_none_or(Value::is_object));
    if is_object {
        let released = ask("PodClique", &without(("/metadata/finalizers", Value::Null)), new);
        law(released.denied.is_none(), || format!("a finalizer may not go: {released:?}"))?;
        let status = ask("ResourceClaim", &without(("/status", json!({ "a": 1 }))), new);
        law(status.denied.is_none(), || format!("the status of a claim may not change: {status:?}"))?;
    }
    let facts = of_sets(&Known::default());
    let clique = typed::<PodClique>(new);
    if let Some(clique) = &clique {
        told(&validate_scale(ScaleTarget::Clique(clique, set), replicas, &facts))?;
        accepts(&validate_scale(ScaleTarget::Clique(clique, set), 0, &facts), "it may not be scaled to nothing")?;
    }
    let group = typed::<PodCliqueScalingGroup>(new);
    if let Some(group) = &group {
        told(&validate_scale(ScaleTarget::Group(group, set), replicas, &facts))?;
        accepts(&validate_scale(ScaleTarget::Group(group, set), 0, &facts), "it may not be scaled to nothing")?;
    }
    Ok(clique.is_some() || group.is_some())
}
