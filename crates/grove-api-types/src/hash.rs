//! Hashes of pod templates: two hashes are equal exactly if the pods are equal.
//!
//! A hash is the first 64 bits of SHA-256 over canonical JSON (sorted keys, no nulls) of the fields with their defaults. The value
//! begins with the version of this algorithm, so that a later algorithm does not accept a value of an older one.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::v1alpha1::{PodCliqueSetTemplateSpec, PodCliqueSpec, PodCliqueTemplateSpec};

/// The version of the algorithm: the first character of each hash.
const VERSION: char = '1';

/// Whether this algorithm has computed the hash. The Go operator has hashes of another form.
pub fn is_of_this_version(hash: &str) -> bool {
    hash.len() == 17 && hash.starts_with(VERSION) && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The hash of the pods of one clique: labels, annotations and the pod spec. The priority class of the set replaces that of the
/// pod spec. It is the value of the label `grove.io/pod-template-hash`.
pub fn pod_template(clique: &PodCliqueTemplateSpec, priority_class_name: &str) -> String {
    digest_of_text(&pod_template_text(clique, priority_class_name))
}

/// The hash of all cliques of a set, independent of their order: `status.currentGenerationHash`.
pub fn generation(template: &PodCliqueSetTemplateSpec) -> String {
    let by_name: BTreeMap<&str, String> = template
        .cliques
        .iter()
        .map(|clique| (clique.name.as_str(), pod_template_text(clique, &template.priority_class_name)))
        .collect();
    digest_of_text(&format!("[{}]", by_name.into_values().collect::<Vec<_>>().join(",")))
}

/// The hashed fields as canonical JSON. The text has no tree in between, because the tree of a large pod spec may have fifty times as many bytes.
fn pod_template_text(clique: &PodCliqueTemplateSpec, priority_class_name: &str) -> String {
    let PodCliqueTemplateSpec {
        name: _,
        labels,
        annotations,
        topology_constraint: _,
        resource_sharing: _,
        resource_claim_template_names: _,
        rolling_update: _,
        spec,
    } = clique;
    let PodCliqueSpec {
        role_name: _,
        pod_spec,
        replicas: _,
        min_available: _,
        starts_after: _,
        auto_scaling_config: _,
    } = spec;
    let mut pod_spec = pod_spec.clone();
    pod_spec.insert("priorityClassName", Some(priority_class_name).filter(|name| !name.is_empty()));
    let (labels, annotations, spec) = (json!(labels), json!(annotations), pod_spec.text_without_nulls());
    format!(r#"{{"annotations":{annotations},"labels":{labels},"spec":{spec}}}"#)
}

/// The hash of a JSON value, independent of the order of its fields and of nulls.
pub(crate) fn digest(value: &Value) -> String {
    digest_of_text(&without_nulls(value).to_string())
}

fn digest_of_text(canonical: &str) -> String {
    let digest = Sha256::digest(canonical.as_bytes());
    digest.iter().take(8).fold(String::from(VERSION), |hash, byte| hash + &format!("{byte:02x}"))
}

/// JSON without nulls. The maps of `serde_json` are sorted by key, so the text is canonical.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
