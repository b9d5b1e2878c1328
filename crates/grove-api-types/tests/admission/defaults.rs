//! What is filled in, as the smallest patches.

use grove_api_types::admission::{default_cluster_topology, default_pod_clique_set};
use grove_test_support::rows::{Known, PatchRow, changed, object, patches};
use serde_json::{Value, json};

use crate::facts::of_sets;

fn patch(row: &PatchRow) -> Value {
    let new = changed(&object(&row.object), &row.change);
    let old = row.before.as_ref().map(|before| changed(&object(&row.object), before));
    let changes = match row.object.as_str() {
        "set" => default_pod_clique_set(&new, old.as_ref(), &of_sets(&row.facts)),
        _ => default_cluster_topology(&new),
    };
    serde_json::to_value(changes).expect("a patch serialises")
}

#[test]
fn every_object_gets_its_defaults() {
    let wrong: Vec<_> = patches()
        .iter()
        .map(|row| (row, patch(row)))
        .filter(|(row, patch)| json!(row.patch) != *patch)
        .map(|(row, patch)| format!("patch: {}\n  {patch}\n", row.case))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn what_is_no_set_is_left_for_the_definition_to_refuse() {
    let facts = of_sets(&Known::default());
    let no_set = json!({ "metadata": {}, "spec": { "template": { "cliques": [{ "name": 7 }] } } });
    assert_eq!(default_pod_clique_set(&no_set, None, &facts), []);
}
