//! The laws, for the objects of the rows.

use grove_api_types::admission::{validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::{Changes, Known, On, Row, changed, object, rows};
use serde_json::{Value, json};

use crate::facts::of_sets;
use crate::laws::{later, of_set, of_topology, patched, typed};
use crate::validation_results::{created, updated};

/// The object with another field changed, about which there is no rule.
fn elsewhere(row: &Row, object: &Value) -> Value {
    let change = match row.object.as_str() {
        "set" => ("/spec/template/priorityClassName".to_owned(), json!("elsewhere")),
        _ => ("/metadata/labels".to_owned(), json!({ "else": "where" })),
    };
    changed(object, &Changes::from([change]))
}

fn readable() -> impl Iterator<Item = &'static Row> {
    rows().iter().filter(|row| !row.unreadable)
}

#[test]
fn the_laws_hold_for_every_row() {
    for row in readable() {
        let (new, old) = (row.new_object(), row.old_object());
        let holds = match row.object.as_str() {
            "set" => of_set(&new, &old, &row.facts),
            _ => of_topology(&new, &old, &row.facts),
        };
        assert_eq!(holds, Ok(true), "{}", row.title());
    }
}

#[test]
fn fields_that_nobody_knows_survive() {
    let unknown = |pointer: &str| (pointer.to_owned(), json!({ "of": "tomorrow" }));
    let places = ["/spec/tomorrow", "tomorrow", "cliques/0/tomorrow", "cliques/0/spec/podSpec/tomorrow"];
    let mut changes: Changes = places.iter().map(|place| unknown(place)).collect();
    changes.insert("terminationDelay".to_owned(), Value::Null);
    let new = changed(&object("set"), &changes);
    let patched = patched(&new, None, &of_sets(&Known::default()));
    let mut expected = new;
    expected["spec"]["template"]["terminationDelay"] = json!("4h0m0s");
    assert_eq!(patched, expected);
}

#[test]
fn whatever_is_stored_can_be_changed_elsewhere_deleted_and_released() {
    for row in readable().filter(|row| row.on != On::Update) {
        let stored = row.new_object();
        let deleted =
            changed(&stored, &[("/metadata/deletionTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"))].into());
        let kept = changed(&stored, &[("/metadata/finalizers".to_owned(), json!(["a/b"]))].into());
        let changes = [(&stored, &stored), (&stored, &elsewhere(row, &stored)), (&stored, &deleted), (&kept, &stored)];
        for known in later().into_iter().chain([row.facts.clone()]) {
            let row = Row { facts: known, ..row.clone() };
            for (old, new) in changes {
                let result = updated(&row, old.clone(), new.clone());
                assert!(result.is_accepted(), "{}: {:?}", row.title(), result.message());
            }
        }
    }
}

#[test]
fn what_was_wrong_before_stays_known_when_it_moves() {
    let two = |names: [&str; 2]| {
        let clique = |name: &str| {
            let least = if name == "wrong" { 9 } else { 1 };
            json!({ "name": name, "spec": { "roleName": name, "replicas": 2, "minAvailable": least, "podSpec": {} } })
        };
        let changes =
            [("cliques".to_owned(), json!(names.map(clique))), ("podCliqueScalingGroups".to_owned(), Value::Null)];
        typed::<PodCliqueSet>(&changed(&object("set"), &changes.into())).expect("a set")
    };
    let facts = of_sets(&Known::default());
    let (old, new) = (two(["wrong", "right"]), two(["right", "wrong"]));
    assert!(!validate_create(&old, &facts).is_accepted());
    assert_eq!(validate_update(&new, &old, &facts).message(), None);
}

#[test]
fn rows_that_are_accepted_are_accepted_when_created() {
    for row in readable().filter(|row| row.on == On::Both && row.refused.is_empty()) {
        assert!(created(row).is_accepted(), "{}", row.title());
    }
}
