//! Rows show each requirement that the sources state for admission, or the table contains the reason why none does.

use std::collections::{BTreeMap, BTreeSet};

use grove_test_support::rows::{managed, patches, rows};
use serde::Deserialize;

/// A requirement of a source, and the titles of the rows that show it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Requirement {
    source: String,
    #[serde(rename = "requirement")]
    text: String,
    denied: Vec<String>,
    allowed: Vec<String>,
    patched: Vec<String>,
    not_patched: Vec<String>,
    /// Names of tests of a service; the layout tests check that they exist.
    tests: Vec<String>,
    reason: Option<String>,
}

impl Requirement {
    fn title(&self) -> String {
        format!("{}: {}", self.source, self.text)
    }

    /// The titles of the rows, each with the result of the row.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let lists = [
            ("denied", &self.denied),
            ("allowed", &self.allowed),
            ("patched", &self.patched),
            ("notPatched", &self.not_patched),
        ];
        lists.into_iter().flat_map(|(result, titles)| titles.iter().map(move |title| (result, title.as_str())))
    }
}

/// The numbered rules of the wire format: the letter of their kind, and their count.
const NUMBERED: [(char, usize); 4] = [('D', 8), ('V', 39), ('T', 8), ('U', 10)];
/// The sources without numbered rules. The designs are the last four.
const UNNUMBERED: [&str; 7] = ["wire 6.3", "wire 6.4", "wire 6.5", "MNNVL", "TAS", "GREP-369", "GREP-390"];

fn requirements() -> Vec<Requirement> {
    serde_saphyr::from_str(include_str!("sources.yaml")).expect("the table")
}

fn denied_or_allowed(is_denied: bool) -> &'static str {
    if is_denied { "denied" } else { "allowed" }
}

/// The sources that each row cites, by the result and the title of the row. Some rows have the same title.
fn citations() -> BTreeMap<(&'static str, String), String> {
    let of_rows = rows().iter().map(|row| {
        let is_denied = row.schema_only || !row.errors.is_empty();
        ((denied_or_allowed(is_denied), row.title()), row.source.clone())
    });
    let of_patches = patches().into_iter().map(|row| {
        let result = if row.patch.is_empty() { "notPatched" } else { "patched" };
        ((result, row.case), row.source)
    });
    let of_managed = managed().into_iter().map(|row| {
        let title = format!("{} {}: {}", row.operation, row.kind, row.case);
        ((denied_or_allowed(row.denied.is_some()), title), row.source)
    });
    of_rows.chain(of_patches).chain(of_managed).collect()
}

fn cites(citation: &str, source: &str) -> bool {
    citation.split([';', ',']).any(|cited| cited.trim() == source)
}

#[test]
fn each_requirement_has_rows_that_cite_its_source() {
    let citations = citations();
    let mut wrong = vec![];
    for requirement in requirements() {
        let title = requirement.title();
        let mut is_cited = requirement.reason.is_some();
        for (result, row) in requirement.rows() {
            match citations.get(&(result, row.to_owned())) {
                None => wrong.push(format!("{title}\n  no such row: {result} {row}")),
                Some(citation) => is_cited |= cites(citation, &requirement.source),
            }
        }
        if !is_cited {
            wrong.push(format!("{title}\n  no row shows it and cites {}, and there is no reason", requirement.source));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_requirement_that_denies_requests_also_allows_some() {
    for requirement in requirements().iter().filter(|requirement| requirement.reason.is_none()) {
        let allows_some = requirement.denied.is_empty() || !requirement.allowed.is_empty();
        assert!(allows_some, "{}: does the rule deny all requests?", requirement.title());
    }
}

#[test]
fn the_table_has_each_source() {
    let all = requirements();
    let in_table: BTreeSet<&str> = all.iter().map(|requirement| requirement.source.as_str()).collect();
    let numbered = NUMBERED.into_iter().flat_map(|(kind, count)| (1..=count).map(move |at| format!("{kind}{at}")));
    let sources: BTreeSet<String> = numbered.chain(UNNUMBERED.map(str::to_owned)).collect();
    let sources: BTreeSet<&str> = sources.iter().map(String::as_str).collect();
    assert_eq!(in_table, sources);
}

#[test]
fn the_table_has_each_row_that_cites_a_design() {
    let all = requirements();
    let listed: BTreeSet<(&str, &str)> = all.iter().flat_map(Requirement::rows).collect();
    let citations = citations();
    let designs = &UNNUMBERED[3..];
    let citing = citations.iter().filter(|(_, citation)| designs.iter().any(|design| cites(citation, design)));
    let missing: Vec<_> = citing.filter(|((result, row), _)| !listed.contains(&(result, row.as_str()))).collect();
    assert!(missing.is_empty(), "these rows cite a design; add them to a requirement in sources.yaml: {missing:?}");
}
