//! The pod spec of a clique.

use serde_json::{Value, json};

pub use crate::raw::RawPodSpec;

/// Appends to a list, unless it has an entry of the same name. A list that is absent or null begins with the entry.
pub(crate) fn push_named(list: &mut Value, entry: Value) {
    match list {
        Value::Array(entries) => {
            if entries.iter().all(|other| other["name"] != entry["name"]) {
                entries.push(entry);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            *list = json!([entry]);
        }
    }
}
