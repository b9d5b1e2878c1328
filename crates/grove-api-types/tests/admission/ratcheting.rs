//! Ratcheting and other invariants, for the objects of the rows.

use grove_api_types::admission::{validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::{Changes, Operations, Row, RowFacts, changed, object, rows};
use serde_json::{Value, json};

use super::facts::set_facts;
use super::laws::{check_set, check_topology, later_facts, patched, typed};
use super::validation_results::{created, updated};

/// The object with a change of a field that has no rule.
fn with_unrelated_change(row: &Row, object: &Value) -> Value {
    let change = match row.object.as_str() {
        "set" => ("/spec/template/priorityClassName".to_owned(), json!("elsewhere")),
        _ => ("/metadata/labels".to_owned(), json!({ "else": "where" })),
    };
    changed(object, &Changes::from([change]))
}

fn typed_rows() -> impl Iterator<Item = &'static Row> {
    rows().iter().filter(|row| !row.schema_only)
}

#[test]
fn the_laws_hold_for_every_row() {
    for row in typed_rows() {
        let (new, old) = (row.new_object(), row.old_object());
        let result = match row.object.as_str() {
            "set" => check_set(&new, &old, &row.facts),
            _ => check_topology(&new, &old, &row.facts),
        };
        assert_eq!(result, Ok(true), "{}", row.title());
    }
}

#[test]
fn unknown_fields_are_preserved() {
    let unknown = |pointer: &str| (pointer.to_owned(), json!({ "from": "a later version" }));
    let places = ["/spec/unknown", "unknown", "cliques/0/unknown", "cliques/0/spec/podSpec/unknown"];
    let mut changes: Changes = places.iter().map(|place| unknown(place)).collect();
    changes.insert("terminationDelay".to_owned(), Value::Null);
    let new = changed(&object("set"), &changes);
    let patched = patched(&new, None, &set_facts(&RowFacts::default()));
    let mut expected = new;
    expected["spec"]["template"]["terminationDelay"] = json!("4h0m0s");
    assert_eq!(patched, expected);
}

#[test]
fn each_stored_object_accepts_unrelated_changes_deletion_and_the_removal_of_finalizers() {
    for row in typed_rows().filter(|row| row.operations != Operations::Update) {
        let stored = row.new_object();
        let deleted =
            changed(&stored, &[("/metadata/deletionTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"))].into());
        let with_finalizer = changed(&stored, &[("/metadata/finalizers".to_owned(), json!(["a/b"]))].into());
        let changes = [
            (&stored, &stored),
            (&stored, &with_unrelated_change(row, &stored)),
            (&stored, &deleted),
            (&with_finalizer, &stored),
        ];
        for facts in later_facts().into_iter().chain([row.facts.clone()]) {
            let row = Row { facts, ..row.clone() };
            for (old, new) in changes {
                let result = updated(&row, old.clone(), new.clone());
                assert!(result.is_accepted(), "{}: {:?}", row.title(), result.message());
            }
        }
    }
}

#[test]
fn a_stored_error_is_accepted_at_another_index() {
    let set = |names: [&str; 2]| {
        let clique = |name: &str| {
            let min_available = if name == "wrong" { 9 } else { 1 };
            json!({ "name": name, "spec": { "roleName": name, "replicas": 2, "minAvailable": min_available, "podSpec": {} } })
        };
        let changes =
            [("cliques".to_owned(), json!(names.map(clique))), ("podCliqueScalingGroups".to_owned(), Value::Null)];
        typed::<PodCliqueSet>(&changed(&object("set"), &changes.into())).expect("a set")
    };
    let facts = set_facts(&RowFacts::default());
    let (old, new) = (set(["wrong", "right"]), set(["right", "wrong"]));
    assert!(!validate_create(&old, &facts).is_accepted());
    assert_eq!(validate_update(&new, &old, &facts).message(), None);
}

#[test]
fn accepted_rows_are_accepted_on_create() {
    for row in typed_rows().filter(|row| row.operations == Operations::CreateAndUpdate && row.errors.is_empty()) {
        assert!(created(row).is_accepted(), "{}", row.title());
    }
}
