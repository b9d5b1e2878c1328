//! The smallest RFC 7386 merge patch that turns one JSON value into another. Pure.

use serde_json::{Map, Value};

/// The patch; `None` if there is no difference. A null in either value counts as absent.
pub fn create_merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let patch = object_patch(old, new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (Value::Null, Value::Object(new)) => Some(Value::Object(object_patch(&Map::new(), new))),
        _ => (old != new).then(|| new.clone()),
    }
}

fn object_patch(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let removed = old.iter().filter(|(key, value)| !value.is_null() && new.get(*key).is_none_or(Value::is_null));
    let removed = removed.map(|(key, _)| (key.clone(), Value::Null));
    let changed = new.iter().filter(|(_, value)| !value.is_null()).filter_map(|(key, value)| {
        let patch = create_merge_patch(old.get(key).unwrap_or(&Value::Null), value)?;
        Some((key.clone(), patch))
    });
    removed.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(old: Value, new: &Value, patch: Option<Value>) {
        assert_eq!(create_merge_patch(&old, new), patch);
        let mut merged = old;
        json_patch::merge(&mut merged, &patch.unwrap_or_else(|| json!({})));
        assert_eq!(&merged, new, "the patch does not lead to the new value");
    }

    #[test]
    fn equal_values_need_no_patch() {
        check(json!({ "a": 1, "b": [1] }), &json!({ "a": 1, "b": [1] }), None);
    }

    #[test]
    fn a_patch_contains_only_the_differences() {
        check(
            json!({ "a": 1, "b": { "c": 1, "d": 2 } }),
            &json!({ "a": 1, "b": { "c": 3, "d": 2 } }),
            Some(json!({ "b": { "c": 3 } })),
        );
    }

    #[test]
    fn a_removed_key_becomes_null_and_a_list_is_sent_completely() {
        check(json!({ "a": 1, "l": [1, 2] }), &json!({ "l": [2] }), Some(json!({ "a": null, "l": [2] })));
    }

    #[test]
    fn a_first_status_is_sent_completely() {
        check(Value::Null, &json!({ "a": { "b": 1 } }), Some(json!({ "a": { "b": 1 } })));
        check(Value::Null, &json!({}), Some(json!({})));
    }

    #[test]
    fn nulls_count_as_absent() {
        assert_eq!(create_merge_patch(&json!({ "a": null }), &json!({})), None);
        assert_eq!(create_merge_patch(&json!({}), &json!({ "a": null })), None);
    }
}
