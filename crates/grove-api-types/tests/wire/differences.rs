//! Where ours and the wire format differ, and that each difference is meant.

use serde::Deserialize;

use crate::{Statements, folder, ours, read, wire};

/// Differences of one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Intended {
    /// Why.
    because: String,
    /// Of which fields: `Kind path`; a `*` at the beginning stands for anything before, one at the end for anything after.
    at: Vec<String>,
    /// What only the wire format states; a `*` stands for anything.
    #[serde(default, rename = "only wire")]
    only_wire: Vec<String>,
    /// What only our definitions state.
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

/// What is stated on one side and neither on the other nor in the list; and what the list says and is not so.
fn complaints(
    side: &str,
    only: &Statements,
    intended: &[Intended],
    rows: fn(&Intended) -> &Vec<String>,
) -> Vec<String> {
    let covers = |row: &Intended, (path, said): &(String, String)| {
        row.at.iter().any(|at| matches(at, path)) && rows(row).iter().any(|row| matches(row, said))
    };
    let unlisted = only.iter().filter(|statement| !intended.iter().any(|row| covers(row, statement)));
    let mut complaints: Vec<_> = unlisted.map(|(path, said)| format!("only {side}: {path}: {said}")).collect();
    for row in intended.iter().filter(|row| !rows(row).is_empty()) {
        let idle = |at: &&String| {
            let so =
                |(path, said): &(String, String)| matches(at, path) && rows(row).iter().any(|row| matches(row, said));
            !only.iter().any(so)
        };
        let idle = row.at.iter().filter(idle);
        complaints
            .extend(idle.map(|at| format!("no such difference ({side}): {at}: {:?}: {}", rows(row), row.because)));
    }
    complaints
}

#[test]
fn the_definitions_differ_from_the_wire_format_only_as_listed() {
    let (wire, ours) = (wire::statements(), ours::statements());
    let intended: Vec<Intended> = read(&folder().join("differences.yaml"));
    let (only_wire, only_ours) = (&wire - &ours, &ours - &wire);
    let mut all = complaints("wire", &only_wire, &intended, |row| &row.only_wire);
    all.extend(complaints("ours", &only_ours, &intended, |row| &row.only_ours));
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn an_unlisted_difference_is_found() {
    let statement = |said: &str| [("Kind spec.field".to_owned(), said.to_owned())].into_iter().collect::<Statements>();
    let row = |at: &str, said: &str| Intended {
        because: "so".to_owned(),
        at: vec![at.to_owned()],
        only_wire: vec![said.to_owned()],
        only_ours: Vec::new(),
    };
    let found = |row: Intended| complaints("wire", &statement("required"), &[row], |row| &row.only_wire);
    assert!(found(row("Kind spec.field", "required")).is_empty());
    assert!(found(row("*.field", "*")).is_empty());
    assert_eq!(found(row("Kind spec.other", "required")).len(), 2, "one is not listed, one is listed and not so");
    assert_eq!(found(row("Kind spec.field", "string")).len(), 2);
}
