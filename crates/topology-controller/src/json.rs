//! The comparison of a live JSON value with the desired one. Pure.

use serde_json::{Map, Value};

/// Whether `live` has everything that `desired` has. A null in `desired` requires that the field is absent. Other fields of `live` belong to
/// the scheduler, or have a default of the CRD. Lists have the same number of items.
pub(crate) fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| covers(live.get(key).unwrap_or(&Value::Null), value))
        }
        // An object without required fields.
        (Value::Null, Value::Object(desired)) => desired.values().all(Value::is_null) && desired.is_empty(),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| covers(live, desired))
        }
        _ => live == desired,
    }
}

/// The merge patch that makes `live` cover `desired`; `None` if it does. A list is replaced as a whole.
pub(crate) fn merge_patch(live: &Value, desired: &Value) -> Option<Value> {
    let (Value::Object(live), Value::Object(desired)) = (live, desired) else {
        return (!covers(live, desired)).then(|| without_nulls_in_lists(desired));
    };
    let changed = desired.iter().filter_map(|(key, value)| {
        let live = live.get(key).unwrap_or(&Value::Null);
        Some((key.clone(), merge_patch(live, value)?))
    });
    let patch: Map<_, _> = changed.collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The value without nulls, for a create.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(present.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A null in a merge patch deletes a field, but in a list it would be stored.
fn without_nulls_in_lists(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), without_nulls_in_lists(value))).collect())
        }
        Value::Array(_) => without_nulls(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(live: &Value, desired: &Value, expected: Option<&Value>) {
        let patch = merge_patch(live, desired);
        assert_eq!(patch.as_ref(), expected);
        assert_eq!(patch.is_none(), covers(live, desired));
        let mut patched = live.clone();
        json_patch::merge(&mut patched, &patch.unwrap_or_else(|| json!({})));
        assert!(covers(&patched, desired), "{patched}");
    }

    #[test]
    fn only_desired_fields_are_compared() {
        check(&json!({ "a": 1, "other": 2 }), &json!({ "a": 1 }), None);
        check(&json!({ "a": 1, "other": 2 }), &json!({ "a": 3 }), Some(&json!({ "a": 3 })));
        check(&json!({ "a": { "b": 1, "c": 2 } }), &json!({ "a": { "b": 3 } }), Some(&json!({ "a": { "b": 3 } })));
    }

    #[test]
    fn a_null_removes_a_field() {
        check(&json!({ "a": 1 }), &json!({ "a": null }), Some(&json!({ "a": null })));
        check(&json!({}), &json!({ "a": null }), None);
        check(&json!({ "a": { "b": 1 } }), &json!({ "a": { "b": null } }), Some(&json!({ "a": { "b": null } })));
    }

    #[test]
    fn the_items_of_a_list_are_compared_with_their_defaults_and_a_list_is_replaced() {
        let desired = json!({ "list": [{ "name": "a", "parent": null }] });
        check(&json!({ "list": [{ "name": "a", "default": 1 }] }), &desired, None);
        let replaced = json!({ "list": [{ "name": "a" }] });
        check(&json!({ "list": [{ "name": "b" }] }), &desired, Some(&replaced));
        check(&json!({ "list": [{ "name": "a", "parent": "p" }] }), &desired, Some(&replaced));
        check(&json!({ "list": [] }), &desired, Some(&replaced));
    }

    #[test]
    fn an_empty_object_is_created() {
        check(&json!({}), &json!({ "a": {} }), None);
        assert_eq!(without_nulls(&json!({ "a": { "b": null }, "c": [{ "d": null }] })), json!({ "a": {}, "c": [{}] }));
    }
}
