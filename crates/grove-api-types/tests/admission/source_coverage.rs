//! What the sources ask of admission is shown by rows that say so, or it is said why it cannot be.

use std::collections::{BTreeMap, BTreeSet};

use grove_test_support::rows::{managed, patches, rows};
use serde::Deserialize;

/// A rule of a source, and the rows that show it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    source: String,
    says: String,
    refused: Vec<String>,
    accepted: Vec<String>,
    filled: Vec<String>,
    left: Vec<String>,
    denied: Vec<String>,
    allowed: Vec<String>,
    because: Option<String>,
}

impl Asked {
    /// What becomes of the rows, and their titles.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let lists = [
            ("refused", &self.refused),
            ("accepted", &self.accepted),
            ("filled", &self.filled),
            ("left", &self.left),
            ("denied", &self.denied),
            ("allowed", &self.allowed),
        ];
        lists.into_iter().flat_map(|(what, titles)| titles.iter().map(move |title| (what, title.as_str())))
    }
}

/// The rules of the wire format that have numbers, by the letter of their kind.
const NUMBERED: [(char, usize); 4] = [('D', 8), ('V', 39), ('T', 8), ('U', 10)];
/// The sources whose rules have none.
const OTHERS: [&str; 7] = ["wire 6.3", "wire 6.4", "wire 6.5", "MNNVL", "TAS", "GREP-369", "GREP-390"];

fn asked() -> Vec<Asked> {
    serde_saphyr::from_str(include_str!("sources.yaml")).expect("the table")
}

/// What becomes of each row, and what it cites, by its title. Some have a title in common.
fn shown() -> BTreeMap<(&'static str, String), String> {
    let of_rows = rows().iter().map(|row| {
        let is_refused = row.unreadable || !row.refused.is_empty();
        ((if is_refused { "refused" } else { "accepted" }, row.title()), row.source.clone())
    });
    let of_patches = patches().into_iter().map(|row| {
        let what = if row.patch.is_empty() { "left" } else { "filled" };
        ((what, row.case), row.source)
    });
    let of_managed = managed().into_iter().map(|row| {
        let what = if row.denied.is_some() { "denied" } else { "allowed" };
        ((what, format!("{} {}: {}", row.operation, row.kind, row.case)), row.source)
    });
    of_rows.chain(of_patches).chain(of_managed).collect()
}

fn cites(source: &str, asked: &str) -> bool {
    source.split([';', ',']).any(|cited| cited.trim() == asked)
}

#[test]
fn what_the_sources_ask_is_shown_by_rows_that_say_so() {
    let shown = shown();
    let mut wrong = vec![];
    for asked in asked() {
        let title = format!("{}: {}", asked.source, asked.says);
        let mut is_cited = asked.because.is_some();
        for (what, row) in asked.rows() {
            match shown.get(&(what, row.to_owned())) {
                None => wrong.push(format!("{title}\n  no such row: {what} {row}")),
                Some(source) => is_cited |= cites(source, &asked.source),
            }
        }
        if !is_cited {
            wrong.push(format!("{title}\n  no row shows it and cites {}, and there is no reason", asked.source));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_refuses_accepts_others_and_the_other_way_round() {
    for asked in asked().iter().filter(|asked| asked.because.is_none()) {
        let title = format!("{}: {}", asked.source, asked.says);
        assert!(asked.refused.is_empty() || !asked.accepted.is_empty(), "{title}: refuses everything?");
    }
}

#[test]
fn every_source_is_in_the_table() {
    let all = asked();
    let in_table: BTreeSet<&str> = all.iter().map(|asked| asked.source.as_str()).collect();
    let numbered = NUMBERED.into_iter().flat_map(|(kind, count)| (1..=count).map(move |at| format!("{kind}{at}")));
    let known: BTreeSet<String> = numbered.chain(OTHERS.map(str::to_owned)).collect();
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    assert_eq!(in_table, known);
}

#[test]
fn rows_that_cite_a_design_are_in_the_table() {
    let all = asked();
    let named: BTreeSet<(&str, &str)> = all.iter().flat_map(Asked::rows).collect();
    let shown = shown();
    let designs = &OTHERS[3..];
    let cited = shown.iter().filter(|(_, source)| designs.iter().any(|design| cites(source, design)));
    let missing: Vec<_> = cited.filter(|((what, row), _)| !named.contains(&(what, row.as_str()))).collect();
    assert!(missing.is_empty(), "cite a design; which of its rules in sources.yaml do they show? {missing:?}");
}
