//! Rows, tests or pages show each requirement of the sources, or the table contains the decision that explains why none does.

use std::collections::{BTreeMap, BTreeSet};

use grove_test_support::rows::{managed, patches, rows};
use serde::Deserialize;

/// A requirement of a source, and what shows it.
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
    /// Names of tests; the layout tests check that they exist.
    tests: Vec<String>,
    /// Paths in `docs/`; the layout tests check that they exist.
    pages: Vec<String>,
    /// Why Grove does something else, or why nothing shows the requirement.
    decision: Option<String>,
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
/// The sources without numbered rules. The designs are the last five.
const UNNUMBERED: [&str; 8] =
    ["wire 6.3", "wire 6.4", "wire 6.5", "MNNVL", "TAS", "GREP-369", "GREP-390", "ComputeDomain"];

/// The table of sources, in five files.
fn requirements() -> Vec<Requirement> {
    let files = [
        include_str!("sources.yaml"),
        include_str!("sources-compute-domain.yaml"),
        include_str!("sources-mnnvl.yaml"),
        include_str!("sources-sharing.yaml"),
        include_str!("sources-topology.yaml"),
    ];
    files.iter().flat_map(|file| serde_saphyr::from_str::<Vec<Requirement>>(file).expect("a table")).collect()
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

/// The errors of the table: rows that do not exist, and requirements that nothing shows.
fn violations(requirements: &[Requirement], citations: &BTreeMap<(&'static str, String), String>) -> Vec<String> {
    let mut wrong = vec![];
    for requirement in requirements {
        let title = requirement.title();
        let Requirement { tests, pages, decision, source, .. } = requirement;
        let mut is_shown = !tests.is_empty() || !pages.is_empty() || decision.is_some();
        for (result, row) in requirement.rows() {
            match citations.get(&(result, row.to_owned())) {
                None => wrong.push(format!("{title}\n  no such row: {result} {row}")),
                Some(citation) => is_shown |= cites(citation, source),
            }
        }
        if !is_shown {
            wrong.push(format!("{title}\n  no row that cites {source} shows it, and no test, page or decision"));
        }
    }
    wrong
}

#[test]
fn rows_tests_pages_or_decisions_show_each_requirement() {
    let wrong = violations(&requirements(), &citations());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_requirement_that_nothing_shows_is_found() {
    let citations = BTreeMap::from([(("denied", "rule: case".to_owned()), "TAS; V1".to_owned())]);
    let found = |row: &str| {
        let requirement = serde_saphyr::from_str(&format!("{{requirement: R, {row}}}")).expect("a requirement");
        violations(&[requirement], &citations)
    };
    for shown in ["denied: ['rule: case']", "tests: [t]", "pages: [p.md]", "decision: d"] {
        assert_eq!(found(&format!("source: TAS, {shown}")), Vec::<String>::new(), "{shown}");
    }
    let nothing =
        |source: &str| format!("{source}: R\n  no row that cites {source} shows it, and no test, page or decision");
    assert_eq!(found("source: TAS"), [nothing("TAS")]);
    assert_eq!(found("source: TAS, tests: []"), [nothing("TAS")]);
    assert_eq!(found("source: MNNVL, denied: ['rule: case']"), [nothing("MNNVL")]);
    assert_eq!(found("source: TAS, tests: [t], allowed: [other]"), ["TAS: R\n  no such row: allowed other"]);
}

#[test]
fn a_requirement_that_denies_requests_also_allows_some() {
    for requirement in requirements().iter().filter(|requirement| requirement.decision.is_none()) {
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
    assert!(
        missing.is_empty(),
        "these rows cite a design; add them to a requirement in the table of sources: {missing:?}"
    );
}
