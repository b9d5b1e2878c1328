//! Each difference between the CRDs and the wire format is listed with a reason.

use serde::Deserialize;

use super::{Statements, documented, folder, ours, read};

/// Differences with the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Intended {
    reason: String,
    /// The fields, as `Kind path`. A `*` at the beginning or at the end matches any text.
    fields: Vec<String>,
    /// The statements of only the wire format. A `*` matches any text.
    #[serde(default, rename = "only wire")]
    only_wire: Vec<String>,
    /// The statements of only the CRDs.
    #[serde(default, rename = "only ours")]
    only_ours: Vec<String>,
}

fn matches(pattern: &str, text: &str) -> bool {
    let (head, tail) = (pattern.strip_prefix('*'), pattern.strip_suffix('*'));
    match (head, tail) {
        (Some(_), _) if pattern == "*" => true,
        (Some(end), _) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == pattern,
    }
}

/// The statements of only one side that the list lacks, and the listed differences that do not exist.
fn mismatches(
    side: &str,
    only: &Statements,
    intended: &[Intended],
    rows: fn(&Intended) -> &Vec<String>,
) -> Vec<String> {
    let covers = |row: &Intended, (path, statement): &(String, String)| {
        row.fields.iter().any(|field| matches(field, path)) && rows(row).iter().any(|row| matches(row, statement))
    };
    let unlisted = only.iter().filter(|statement| !intended.iter().any(|row| covers(row, statement)));
    let mut mismatches: Vec<_> =
        unlisted.map(|(path, statement)| format!("only {side}: {path}: {statement}")).collect();
    for row in intended.iter().filter(|row| !rows(row).is_empty()) {
        let is_unused = |field: &&String| {
            let exists = |(path, statement): &(String, String)| {
                matches(field, path) && rows(row).iter().any(|row| matches(row, statement))
            };
            !only.iter().any(exists)
        };
        let unused = row.fields.iter().filter(is_unused);
        mismatches.extend(
            unused.map(|field| format!("no such difference ({side}): {field}: {:?}: {}", rows(row), row.reason)),
        );
    }
    mismatches
}

#[test]
fn the_crds_differ_from_the_wire_format_only_as_listed() {
    let (wire, ours) = (documented::statements(), ours::statements());
    let intended: Vec<Intended> = read(&folder().join("differences.yaml"));
    let (only_wire, only_ours) = (&wire - &ours, &ours - &wire);
    let mut all = mismatches("wire", &only_wire, &intended, |row| &row.only_wire);
    all.extend(mismatches("ours", &only_ours, &intended, |row| &row.only_ours));
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn an_unlisted_difference_is_found() {
    let statements = |text: &str| [("Kind spec.field".to_owned(), text.to_owned())].into_iter().collect::<Statements>();
    let row = |field: &str, statement: &str| Intended {
        reason: "a test".to_owned(),
        fields: vec![field.to_owned()],
        only_wire: vec![statement.to_owned()],
        only_ours: Vec::new(),
    };
    let found = |row: Intended| mismatches("wire", &statements("required"), &[row], |row| &row.only_wire);
    assert!(found(row("Kind spec.field", "required")).is_empty());
    assert!(found(row("*.field", "*")).is_empty());
    assert_eq!(
        found(row("Kind spec.other", "required")).len(),
        2,
        "one difference is not listed, one listed difference does not exist"
    );
    assert_eq!(found(row("Kind spec.field", "string")).len(), 2);
}
