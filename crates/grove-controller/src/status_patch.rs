//! The patch from the observed status of an object to its new status. Pure.
//!
//! A status with one writer gets a merge patch with the observed resource version, so that a patch from a stale cache conflicts. If several
//! services write conditions of one status, a resource version would conflict with each write of the others, and a merge patch would
//! replace the list of conditions. Such a status gets a JSON patch that changes only the differing conditions and fields, and tests the
//! observed value of each.

use std::collections::BTreeSet;

use json_patch::{Patch, PatchOperation};
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::{
    json_patch::{add, remove, replace, test},
    merge_patch::create_merge_patch,
    plan::PatchBody,
};

/// Which services write the status of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusOwnership {
    /// This service writes the whole status.
    #[default]
    Exclusive,
    /// Other services write other conditions of the status.
    SharedConditions,
}

const CONDITIONS: &str = "conditions";
/// A patch tests the observed values of these fields of a condition. They are strings, which JSON has in one form only.
const TESTED_FIELDS: [&str; 4] = ["type", "status", "reason", "message"];

/// The patch; `None` if there is no difference.
pub(crate) fn status_patch<K: Resource>(
    object: &K,
    old: &Value,
    new: &Value,
    ownership: StatusOwnership,
) -> Option<PatchBody> {
    match ownership {
        StatusOwnership::Exclusive => {
            let change = create_merge_patch(old, new)?;
            let precondition = json!({ "resourceVersion": object.resource_version() });
            Some(PatchBody::Merge(json!({ "metadata": precondition, "status": change }).into()))
        }
        StatusOwnership::SharedConditions => {
            let operations = operations(object, old, new);
            let uid = test(&["metadata", "uid"], object.uid());
            let operations = (!operations.is_empty()).then(|| [vec![uid], operations].concat());
            operations.map(|operations| PatchBody::Json(Patch(operations)))
        }
    }
}

fn operations<K: Resource>(object: &K, old: &Value, new: &Value) -> Vec<PatchOperation> {
    let Some(new) = new.as_object() else { return vec![] };
    let Some(old) = old.as_object() else {
        let without_nulls: Map<_, _> = new.clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
        return vec![test_version(object), add(&["status"], without_nulls)];
    };
    let fields: BTreeSet<&String> = old.keys().chain(new.keys()).filter(|field| *field != CONDITIONS).collect();
    let value = |status: &Map<String, Value>, field: &str| status.get(field).filter(|value| !value.is_null()).cloned();
    let fields = fields.into_iter().flat_map(|field| field_operations(field, value(old, field), value(new, field)));
    let conditions = |status: &Map<String, Value>| status.get(CONDITIONS).and_then(Value::as_array).cloned();
    let (old, new) = (conditions(old).unwrap_or_default(), conditions(new).unwrap_or_default());
    fields.chain(condition_operations(object, &old, &new)).collect()
}

fn field_operations(field: &str, old: Option<Value>, new: Option<Value>) -> Vec<PatchOperation> {
    if old == new {
        return vec![];
    }
    let path = ["status", field];
    let test = old.map(|old| test(&path, old));
    let change = match new {
        Some(new) => add(&path, new),
        None => remove(&path),
    };
    test.into_iter().chain([change]).collect()
}

/// The API server rejects a second condition of one type. The test of the version prevents that: a new condition is rare.
fn condition_operations<K: Resource>(object: &K, old: &[Value], new: &[Value]) -> Vec<PatchOperation> {
    let of_type = |condition: &Value| new.iter().find(|new| new["type"] == condition["type"]);
    let (mut replaced, mut removed) = (vec![], vec![]);
    for (at, condition) in old.iter().enumerate() {
        let at = at.to_string();
        let path = ["status", CONDITIONS, &at];
        match of_type(condition) {
            Some(new) if new == condition => {}
            Some(new) => {
                replaced.extend(tests(&at, condition));
                replaced.push(replace(&path, new.clone()));
            }
            None => removed.push((tests(&at, condition), remove(&path))),
        }
    }
    // From the end of the list, so that no removal moves a condition that another operation names.
    let removed = removed.into_iter().rev().flat_map(|(tests, removal)| tests.into_iter().chain([removal]));
    let is_added = |condition: &&Value| old.iter().all(|old| old["type"] != condition["type"]);
    let added: Vec<Value> = new.iter().filter(is_added).cloned().collect();
    let version = (!added.is_empty()).then(|| test_version(object));
    let appended = if old.is_empty() && !added.is_empty() {
        vec![add(&["status", CONDITIONS], added)]
    } else {
        added.into_iter().map(|condition| add(&["status", CONDITIONS, "-"], condition)).collect()
    };
    replaced.into_iter().chain(removed).chain(version).chain(appended).collect()
}

fn tests(at: &str, condition: &Value) -> Vec<PatchOperation> {
    let test = |field| test(&["status", CONDITIONS, at, field], condition[field].clone());
    TESTED_FIELDS.map(test).into()
}

fn test_version<K: Resource>(object: &K) -> PatchOperation {
    test(&["metadata", "resourceVersion"], object.resource_version())
}

#[cfg(test)]
mod tests {

    use grove_test_support::mock_api_server::config_map;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object() -> ConfigMap {
        serde_json::from_value(config_map("a", 7, "owner")).unwrap()
    }

    fn condition(type_: &str, reason: &str) -> Value {
        json!({ "type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    }

    /// The operations of a patch between two statuses, and the status of `live` after the patch; `None` if a test fails.
    fn patched(old: &Value, new: &Value, live: &Value) -> Option<Value> {
        let patch = status_patch(&object(), old, new, StatusOwnership::SharedConditions);
        let mut stored = serde_json::to_value(object()).unwrap();
        if !live.is_null() {
            stored["status"] = live.clone();
        }
        if let Some(PatchBody::Json(patch)) = patch {
            json_patch::patch(&mut stored, &patch).ok()?;
        }
        Some(stored.get("status").cloned().unwrap_or_default())
    }

    #[test]
    fn a_patch_leads_to_the_new_status() {
        let [a, b, c, d] = ["A", "B", "C", "D"].map(|type_| condition(type_, "Old"));
        let changed = condition("B", "New");
        let status = |phase: &str, conditions: &[&Value]| json!({ "phase": phase, "conditions": conditions });
        for (old, new) in [
            (Value::Null, status("Pending", &[&a])),
            (json!({ "phase": "Pending" }), status("Pending", &[&a, &b])),
            (status("Pending", &[&a, &b]), status("Running", &[&a, &changed])),
            (status("Pending", &[&a, &b, &c]), status("Pending", &[&changed])),
            (status("Pending", &[&b, &a]), status("Pending", &[&changed, &a, &c, &d])),
            (json!({ "score": 1, "conditions": [a] }), json!({ "conditions": [a] })),
        ] {
            assert_eq!(patched(&old, &new, &old), Some(new.clone()), "{old} → {new}");
            assert_eq!(status_patch(&object(), &new, &new, StatusOwnership::SharedConditions), None);
        }
    }

    #[test]
    fn conditions_and_fields_of_other_writers_stay() {
        let (own, other, new) = (condition("A", "Old"), condition("B", "Old"), condition("A", "New"));
        let changed_other = json!({ "score": 2, "conditions": [own, condition("B", "New"), condition("C", "New")] });
        let after = patched(
            &json!({ "score": 1, "conditions": [own, other] }),
            &json!({ "score": 1, "conditions": [new, other] }),
            &changed_other,
        );
        let expected = json!({ "score": 2, "conditions": [new, condition("B", "New"), condition("C", "New")] });
        assert_eq!(after, Some(expected));
    }

    #[test]
    fn a_patch_fails_if_the_observed_value_is_not_the_live_one() {
        let (old, new) =
            (json!({ "phase": "Pending", "conditions": [condition("A", "Old"), condition("B", "Old")] }), "New");
        let changed = json!({ "phase": "Pending", "conditions": [condition("A", new), condition("B", "Old")] });
        let other_position =
            json!({ "phase": "Pending", "conditions": [condition("B", "Old"), condition("A", "Old")] });
        let other_reason =
            json!({ "phase": "Pending", "conditions": [condition("A", "Other"), condition("B", "Old")] });
        for live in [json!({ "phase": "Pending" }), other_position, other_reason, Value::Null] {
            assert_eq!(patched(&old, &changed, &live), None, "{live}");
        }
        let running = json!({ "phase": "Running", "conditions": old["conditions"] });
        assert_eq!(patched(&old, &running, &json!({ "phase": "Starting", "conditions": old["conditions"] })), None);
    }

    #[test]
    fn a_new_condition_and_a_first_status_need_the_observed_version() {
        for old in [Value::Null, json!({ "conditions": [condition("B", "Old")] })] {
            let new = json!({ "conditions": [condition("A", "New"), condition("B", "Old")] });
            let Some(PatchBody::Json(patch)) = status_patch(&object(), &old, &new, StatusOwnership::SharedConditions)
            else {
                panic!("a JSON patch")
            };
            assert!(patch.0.contains(&test(&["metadata", "resourceVersion"], "7")), "{patch:?}");
            assert!(patch.0.contains(&test(&["metadata", "uid"], object().uid())), "{patch:?}");
        }
    }
}
