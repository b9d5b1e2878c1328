//! The validation of each row has the expected result.

use std::collections::BTreeSet;

use grove_api_types::admission::{
    ValidationResult, validate_cluster_topology_create, validate_cluster_topology_update, validate_create,
    validate_topology_binding_create, validate_topology_binding_update, validate_update,
};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::{Operations, Row, RowFacts, changed, object, rows};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::facts::{facts_of_topology, set_facts};
use super::laws::typed;

fn read<T: DeserializeOwned>(row: &Row, object: Value) -> T {
    serde_json::from_value(object).unwrap_or_else(|error| panic!("{}: {error}", row.title()))
}

/// The result of the create of the new object.
pub(crate) fn created(row: &Row) -> ValidationResult {
    let object = row.new_object();
    match row.object.as_str() {
        "set" => validate_create(&read(row, object), &set_facts(&row.facts)),
        "topology" => validate_cluster_topology_create(&read(row, object), &facts_of_topology(row)),
        "binding" => validate_topology_binding_create(&read(row, object), &facts_of_topology(row)),
        other => panic!("unknown object: {other}"),
    }
}

/// The result of the update of the old object to the new one.
pub(crate) fn updated(row: &Row, old: Value, new: Value) -> ValidationResult {
    let topologies = facts_of_topology(row);
    match row.object.as_str() {
        "set" => validate_update(&read(row, new), &read(row, old), &set_facts(&row.facts)),
        "topology" => validate_cluster_topology_update(&read(row, new), &read(row, old), &topologies),
        "binding" => validate_topology_binding_update(&read(row, new), &read(row, old), &topologies),
        other => panic!("unknown object: {other}"),
    }
}

pub(crate) fn results(row: &Row) -> Vec<(&'static str, ValidationResult)> {
    let update = || updated(row, row.old_object(), row.new_object());
    match row.operations {
        Operations::CreateAndUpdate => vec![("on create", created(row)), ("on update", update())],
        Operations::Create => vec![("on create", created(row))],
        Operations::Update => vec![("on update", update())],
    }
}

#[test]
fn schema_only_rows_have_only_errors_of_the_api_server() {
    for row in rows().iter().filter(|row| row.schema_only) {
        assert!(!row.crd_errors.is_empty() && row.errors.is_empty(), "{}", row.title());
    }
}

fn texts(result: &ValidationResult) -> Vec<String> {
    result.violations.iter().map(ToString::to_string).collect()
}

#[test]
fn each_row_has_the_expected_result() {
    let mut wrong = vec![];
    for row in rows().iter().filter(|row| !row.schema_only) {
        for (when, result) in results(row) {
            let actual = (texts(&result), result.warnings.clone());
            let on_update = if when == "on update" { &row.errors_on_update[..] } else { &[] };
            if actual != ([&row.errors, on_update].concat(), row.warnings.clone()) {
                let (errors, warnings) = (json!(actual.0), json!(actual.1));
                wrong.push(format!("{} ({when})\n  errors: {errors}\n  warnings: {warnings}\n", row.title()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn the_errors_of_each_row_include_its_rule() {
    for row in rows().iter().filter(|row| !row.errors.is_empty()) {
        for (when, result) in results(row) {
            let rules: BTreeSet<_> = result.violations.iter().map(|violation| violation.rule.name()).collect();
            assert!(rules.contains(row.rule.as_str()), "{} ({when}): {rules:?}", row.title());
        }
    }
}

#[test]
fn errors_beyond_the_limit_are_counted() {
    let cliques: Vec<_> = (0..150).map(|at| json!({ "name": format!("C{at}"), "spec": { "podSpec": {} } })).collect();
    let changes = [("cliques".to_owned(), json!(cliques)), ("podCliqueScalingGroups".to_owned(), Value::Null)];
    let set = typed::<PodCliqueSet>(&changed(&object("set"), &changes.into())).expect("a set");
    let result = validate_create(&set, &set_facts(&RowFacts::default()));
    assert_eq!((result.violations.len(), result.omitted_violations), (100, 50));
    let message = result.message().expect("errors");
    assert!(message.starts_with("[spec.template.cliques[0].name: Invalid value: \"C0\": invalid"), "{message}");
    assert!(message.len() < 17 * 1024 && message.ends_with(" more]"), "{} bytes: {message}", message.len());
}

#[test]
fn a_long_value_is_truncated_in_the_message() {
    let changes = [("cliques/0/name".to_owned(), json!("\u{e9}".repeat(100_000)))];
    let set = typed::<PodCliqueSet>(&changed(&object("set"), &changes.into())).expect("a set");
    let message = validate_create(&set, &set_facts(&RowFacts::default())).message().expect("errors");
    assert!(message.len() < 10_000 && message.contains('\u{2026}'), "{} bytes", message.len());
}

#[test]
fn warnings_beyond_the_limit_of_the_api_server_are_counted() {
    let labels: serde_json::Map<_, _> = (0..40).map(|at| (format!("grove.io/{at}"), json!("mine"))).collect();
    let set = typed::<PodCliqueSet>(&changed(&object("set"), &[("cliques/0/labels".to_owned(), labels.into())].into()));
    let warnings = validate_create(&set.expect("a set"), &set_facts(&RowFacts::default())).warnings;
    assert_eq!((warnings.len(), warnings.last().map(String::as_str)), (16, Some("and 25 more warnings")));
}

#[test]
fn several_errors_are_joined_in_one_message() {
    let row = rows().iter().find(|row| row.case == "several errors").expect("the row exists");
    let result = created(row);
    assert!(!result.is_accepted());
    assert_eq!(result.message(), Some(format!("[{}]", row.errors.join(", "))));
}
