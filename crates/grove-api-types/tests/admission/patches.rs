//! What is filled in, as the smallest patches.

use grove_api_types::admission::{default_cluster_topology, default_pod_clique_set};
use serde::Deserialize;
use serde_json::Value;

use crate::rows::{Changes, Known, changed, object, read};

/// An object as it was sent, and what is filled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) source: String,
    #[serde(default = "set")]
    object: String,
    /// What is changed of the object that was stored; absent if it is being created.
    #[serde(default)]
    before: Option<Changes>,
    #[serde(default)]
    change: Changes,
    #[serde(default)]
    facts: Known,
    pub(crate) patch: Value,
}

fn set() -> String {
    "set".to_owned()
}

pub(crate) fn rows() -> Vec<Row> {
    read("patches.yaml")
}

impl Row {
    pub(crate) fn is_update(&self) -> bool {
        self.before.is_some()
    }
}

fn patch(row: &Row) -> Value {
    let new = changed(&object(&row.object), &row.change);
    let old = row.before.as_ref().map(|before| changed(&object(&row.object), before));
    let changes = match row.object.as_str() {
        "set" => default_pod_clique_set(&new, old.as_ref(), &row.facts.of_sets()).expect("it is a set"),
        _ => default_cluster_topology(&new),
    };
    serde_json::to_value(changes).expect("a patch serialises")
}

#[test]
fn every_object_gets_its_defaults() {
    let wrong: Vec<_> = rows()
        .iter()
        .map(|row| (row, patch(row)))
        .filter(|(row, patch)| row.patch != *patch)
        .map(|(row, patch)| format!("patch: {}\n  {patch}\n", row.case))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn what_is_no_set_is_told() {
    let facts = Known::default().of_sets();
    let no_set = serde_json::json!({ "metadata": {}, "spec": { "template": { "cliques": [{ "name": 7 }] } } });
    let told = default_pod_clique_set(&no_set, None, &facts).expect_err("a name is a text");
    assert_eq!(told, "the object is no PodCliqueSet: invalid type: integer `7`, expected a string");
}
