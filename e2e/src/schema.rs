//! CRD schemas without some of their validation rules, as older versions of the CRDs may have been.

use serde_json::Value;

/// Removes validation rules from a schema. A property may have the name of a rule; its value is then an object, which stays.
pub fn remove_rules(rules: &[&str], schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| value.is_object() || !rules.contains(&name.as_str()));
            fields.values_mut().for_each(|schema| remove_rules(rules, schema));
        }
        Value::Array(items) => items.iter_mut().for_each(|schema| remove_rules(rules, schema)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
