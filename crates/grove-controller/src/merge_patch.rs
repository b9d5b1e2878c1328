//! The smallest RFC 7386 merge patch that turns one JSON value into another. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue, value::to_raw_value};

/// The patch from the JSON of `old` to that of `new`; `None` if there is no difference. A null in either value counts as absent. Only what
/// differs becomes a tree, because the tree of a large pod spec may need fifty times as many bytes as its text.
///
/// # Panics
/// If a value does not serialise. Parts of API objects do.
#[expect(clippy::expect_used, reason = "API objects consist of maps with string keys, which always serialise")]
pub fn create_merge_patch(old: &impl Serialize, new: &impl Serialize) -> Option<Value> {
    let patch = || text_patch(Some(&*to_raw_value(old)?), &to_raw_value(new)?);
    patch().expect("a part of an API object serialises")
}

fn text_patch(old: Option<&RawValue>, new: &RawValue) -> Result<Option<Value>, serde_json::Error> {
    let Some(new_fields) = fields(new)? else {
        let is_equal = old.map_or("null", RawValue::get) == new.get();
        return if is_equal { Ok(None) } else { serde_json::from_str(new.get()).map(Some) };
    };
    let old_fields = match old.filter(|old| !is_null(old)) {
        None => None,
        Some(old) => match fields(old)? {
            Some(fields) => Some(fields),
            None => return serde_json::from_str(new.get()).map(Some),
        },
    };
    let is_first = old_fields.is_none();
    let (old_fields, mut patch) = (old_fields.unwrap_or_default(), Map::new());
    for (key, old) in &old_fields {
        if !is_null(old) && new_fields.get(key).is_none_or(|new| is_null(new)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, new) in new_fields.iter().filter(|(_, new)| !is_null(new)) {
        if let Some(change) = text_patch(old_fields.get(key).copied(), new)? {
            patch.insert(key.clone(), change);
        }
    }
    Ok((is_first || !patch.is_empty()).then_some(Value::Object(patch)))
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// The fields of an object; `None` for any other value.
fn fields(value: &RawValue) -> Result<Option<BTreeMap<String, &RawValue>>, serde_json::Error> {
    if !value.get().starts_with('{') {
        return Ok(None);
    }
    serde_json::from_str(value.get()).map(Some)
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
        let (null, empty) = (json!({ "a": null }), json!({}));
        for (old, new) in [(&null, &empty), (&empty, &null)] {
            assert_eq!(create_merge_patch(old, new), None);
        }
    }

    #[test]
    fn the_patch_leads_from_any_value_to_any_other() {
        let values = [
            json!(null),
            json!(5),
            json!([{ "b": 1, "a": null }]),
            json!({ "a": { "b": { "c": 1 }, "n": null }, "l": [1] }),
            json!({ "a": { "b": [], "m": { "x": null, "y": 2 } }, "l": null }),
            json!({ "a": 1, "l": [1, { "z": 1 }] }),
        ];
        for (old, new) in values.iter().flat_map(|old| values.iter().map(move |new| (old, new))) {
            let mut merged = old.clone();
            if let Some(patch) = create_merge_patch(old, new) {
                json_patch::merge(&mut merged, &patch);
            }
            assert_eq!(create_merge_patch(&merged, new), None, "{old} {new} {merged}");
        }
    }
}
