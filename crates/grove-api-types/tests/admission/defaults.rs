//! The patches that set defaults contain only the operations that are needed.

use grove_api_types::admission::{default_cluster_topology, default_pod_clique_set};
use grove_test_support::rows::{PatchRow, RowFacts, changed, object, patches};
use serde_json::{Value, json};

use super::facts::set_facts;

fn patch(row: &PatchRow) -> Value {
    let new = changed(&object(&row.object), &row.changes);
    let old = row.old_changes.as_ref().map(|before| changed(&object(&row.object), before));
    let changes = match row.object.as_str() {
        "set" => default_pod_clique_set(&new, old.as_ref(), &set_facts(&row.facts)),
        _ => default_cluster_topology(&new),
    };
    serde_json::to_value(changes).expect("a patch can be serialized")
}

#[test]
fn each_row_has_exactly_the_expected_patch() {
    let wrong: Vec<_> = patches()
        .iter()
        .map(|row| (row, patch(row)))
        .filter(|(row, patch)| json!(row.patch) != *patch)
        .map(|(row, patch)| format!("patch: {}\n  {patch}\n", row.case))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn an_object_that_is_not_a_set_is_not_patched() {
    let facts = set_facts(&RowFacts::default());
    let invalid = json!({ "metadata": {}, "spec": { "template": { "cliques": [{ "name": 7 }] } } });
    assert_eq!(default_pod_clique_set(&invalid, None, &facts), []);
}
