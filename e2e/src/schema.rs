//! Definitions as they were when less was asked of objects.

use serde_json::Value;

/// Takes these rules out of a schema. A field may have the name of a rule; what is said of it is an object then.
pub fn without(rules: &[&str], schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, said| said.is_object() || !rules.contains(&name.as_str()));
            fields.values_mut().for_each(|schema| without(rules, schema));
        }
        Value::Array(items) => items.iter_mut().for_each(|schema| without(rules, schema)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
