//! Laws: invariants of defaulting and validation, which hold for every object, valid or not.

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

use super::facts::{set_facts, topology_facts};
use grove_test_support::rows::{Changes, RowFacts, changed};

/// The limits of a response, for any number of errors.
const LONGEST_MESSAGE: usize = 20 * 1024;
const WARNINGS: (usize, usize) = (16, 256);

/// A deletion timestamp.
static DELETION_TIME: LazyLock<Time> =
    LazyLock::new(|| serde_json::from_str("\"2026-01-01T00:00:00Z\"").expect("a time"));

/// The object as a type; `None` if it does not match.
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

/// Facts that can apply after the create of a set.
pub(crate) fn later_facts() -> Vec<RowFacts> {
    let facts = |text: &str| serde_json::from_str(text).expect("facts");
    vec![
        facts(r#"{"topologyDisabled": true}"#),
        facts(r#"{"mnnvlDisabled": true}"#),
        facts(r#"{"scheduled": true}"#),
        facts(r#"{"defaultScheduler": "volcano", "noQueues": true}"#),
        facts(r#"{"defaultScheduler": "kai-scheduler"}"#),
        facts(r#"{"disabledSchedulers": ["default-scheduler", "kai-scheduler"]}"#),
    ]
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// The message and the warnings of a result are within the limits.
fn check_limits(result: &ValidationResult) -> Result<(), String> {
    let message = result.message().unwrap_or_default();
    check(message.len() <= LONGEST_MESSAGE, || format!("a message of {} bytes", message.len()))?;
    let (count, length) = WARNINGS;
    let fits = result.warnings.len() <= count && result.warnings.iter().all(|it| it.chars().count() <= length);
    check(fits, || format!("warnings beyond the limits: {:?}", result.warnings))
}

fn check_accepted(result: &ValidationResult, message: &str) -> Result<(), String> {
    check(result.is_accepted(), || format!("{message}: {:?}", result.message()))
}

/// The laws of sets. The result is whether the new object is a set.
pub(crate) fn check_set(new: &Value, old: &Value, row_facts: &RowFacts) -> Result<bool, String> {
    let facts = set_facts(row_facts);
    let Some(set) = typed::<PodCliqueSet>(new) else {
        check(default_pod_clique_set(new, None, &facts).is_empty(), || {
            "an object that is not a set is patched".to_owned()
        })?;
        return Ok(false);
    };
    let once = patched(new, None, &facts);
    check(patched(&once, None, &facts) == once, || "a second defaulting changes the object".to_owned())?;
    let defaulted = typed::<PodCliqueSet>(&once).ok_or("a set with its defaults does not match the type")?;
    let by_type = default::pod_clique_set(&set);
    check(is_terminating(&set) || by_type.spec == defaulted.spec, || {
        "the patch and the typed defaults differ".to_owned()
    })?;
    check(default::pod_clique_set(&by_type) == by_type, || "a second typed defaulting changes the set".to_owned())?;
    let created = validate_create(&set, &facts);
    check_limits(&created)?;
    if created.is_accepted() {
        check_accepted(&validate_create(&defaulted, &facts), "the set is denied with its defaults")?;
    }
    check_accepted(&validate_update(&set, &set, &facts), "an update without a change is denied")?;
    check_accepted(&validate_update(&by_type, &set, &facts), "an update that adds the defaults is denied")?;
    check_ratcheting(&set, &facts)?;
    check_limits(&validate_scale(ScaleTarget::Set(&set), i32::MAX, &facts))?;
    for fewer in [0, set.spec.replicas.saturating_sub(1).max(0)] {
        check_accepted(&validate_scale(ScaleTarget::Set(&set), fewer, &facts), "a scale-in is denied")?;
    }
    if let Some(before) = typed::<PodCliqueSet>(old) {
        let stored = patched(new, Some(old), &facts);
        let twice = patched(&stored, Some(old), &facts);
        check(twice == stored, || "a second defaulting of an update changes the object".to_owned())?;
        check_limits(&validate_update(&set, &before, &facts))?;
    }
    Ok(true)
}

/// A stored set accepts unrelated changes, deletion and the removal of finalizers, also if it has errors.
fn check_ratcheting(set: &PodCliqueSet, facts: &Facts) -> Result<(), String> {
    let mut other = set.clone();
    "unrelated".clone_into(&mut other.spec.template.priority_class_name);
    check_accepted(&validate_update(&other, set, facts), "a change of another field is denied")?;
    let mut with_finalizer = set.clone();
    with_finalizer.metadata.finalizers = Some(vec!["a/b".to_owned()]);
    check_accepted(&validate_update(set, &with_finalizer, facts), "the removal of a finalizer is denied")?;
    let mut terminating = set.clone();
    terminating.metadata.deletion_timestamp = Some(DELETION_TIME.clone());
    other.metadata.deletion_timestamp = Some(DELETION_TIME.clone());
    other.spec.template.cliques.clear();
    check_accepted(&validate_update(&other, &terminating, facts), "an update of the terminating set is denied")
}

/// The laws of topologies of both kinds. The result is whether the new object is a topology.
pub(crate) fn check_topology(new: &Value, old: &Value, row_facts: &RowFacts) -> Result<bool, String> {
    let facts = topology_facts(row_facts);
    let patch = |object: &Value| {
        let patch: json_patch::Patch =
            serde_json::from_value(json!(default_cluster_topology(object))).expect("a patch");
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).expect("the patch fits the object");
        object
    };
    let once = patch(new);
    check(patch(&once) == once, || "a second sort of the levels changes the topology".to_owned())?;
    let mut is_topology = false;
    if let Some(topology) = typed::<ClusterTopology>(new) {
        is_topology = true;
        check_limits(&validate_cluster_topology_create(&topology, &facts))?;
        check_accepted(
            &validate_cluster_topology_update(&topology, &topology, &facts),
            "an update without a change is denied",
        )?;
        if let Some(before) = typed(old) {
            check_limits(&validate_cluster_topology_update(&topology, &before, &facts))?;
        }
    }
    if let Some(binding) = typed::<ClusterTopologyBinding>(new) {
        is_topology = true;
        check_limits(&validate_topology_binding_create(&binding, &facts))?;
        check_accepted(
            &validate_topology_binding_update(&binding, &binding, &facts),
            "an update without a change is denied",
        )?;
        if let Some(before) = typed(old) {
            check_limits(&validate_topology_binding_update(&binding, &before, &facts))?;
        }
    }
    Ok(is_topology)
}

/// The laws of managed objects: the removal of a finalizer, a status update and a scale to 0 are always allowed.
pub(crate) fn check_managed(
    new: &Value,
    old: &Value,
    (set, replicas): (Option<&PodCliqueSet>, i32),
) -> Result<bool, String> {
    let authorize_update = |kind: &str, object: &Value, old: &Value| -> Authorization {
        let (object, old_object) = (Some(object), Some(old));
        let request =
            Attributes { operation: Operation::Update, kind, resource: "team/it", user: "alice", object, old_object };
        authorize(&request, ParentSet::Found(None), &std::collections::BTreeSet::new())
    };
    drop(authorize_update("PodClique", new, old));
    let with = |(field, value): (&str, Value)| changed(new, &Changes::from([(field.to_owned(), value)]));
    let is_object = new.as_object().is_some_and(|fields| fields.get("metadata").is_none_or(Value::is_object));
    if is_object {
        let without_finalizers = authorize_update("PodClique", &with(("/metadata/finalizers", Value::Null)), new);
        check(without_finalizers.denied.is_none(), || {
            format!("the removal of a finalizer is denied: {without_finalizers:?}")
        })?;
        let status = authorize_update("ResourceClaim", &with(("/status", json!({ "a": 1 }))), new);
        check(status.denied.is_none(), || format!("a status update of a claim is denied: {status:?}"))?;
    }
    let facts = set_facts(&RowFacts::default());
    let clique = typed::<PodClique>(new);
    if let Some(clique) = &clique {
        for others in [0, 7, u64::MAX] {
            let target = ScaleTarget::Clique(clique, set, others);
            check_limits(&validate_scale(target, replicas, &facts))?;
            check_accepted(&validate_scale(target, 0, &facts), "a scale to 0 is denied")?;
        }
    }
    let group = typed::<PodCliqueScalingGroup>(new);
    if let Some(group) = &group {
        check_limits(&validate_scale(ScaleTarget::Group(group, set), replicas, &facts))?;
        check_accepted(&validate_scale(ScaleTarget::Group(group, set), 0, &facts), "a scale to 0 is denied")?;
    }
    Ok(clique.is_some() || group.is_some())
}
