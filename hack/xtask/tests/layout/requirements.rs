//! The table of sources names existing tests, and existing headings of pages.

use super::{documents::test_names, tree};
use std::{collections::BTreeSet, fs};

/// The files of the table.
const FILES: [&str; 5] = [
    "sources.yaml",
    "sources-compute-domain.yaml",
    "sources-mnnvl.yaml",
    "sources-sharing.yaml",
    "sources-topology.yaml",
];
const FOLDER: &str = "crates/grove-api-types/tests/admission";

/// The items of the lists with this key. Each requirement is one line, and no item contains a comma or a bracket.
fn items<'t>(table: &'t str, key: &str) -> Vec<&'t str> {
    let start = format!(", {key}: [");
    let lists = table.lines().filter_map(|line| line.split_once(&start)?.1.split_once(']'));
    lists.flat_map(|(items, _)| items.split(", ").map(|item| item.trim_matches('\''))).collect()
}

/// The anchors of the headings of a page, as GitHub derives them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .map(|anchor| anchor.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect())
        .collect()
}

/// Whether the page exists, and has the heading if the path ends with one.
fn page_exists(path: &str, read: impl Fn(&str) -> Option<String>) -> bool {
    let (file, anchor) = path.split_once('#').map_or((path, None), |(file, anchor)| (file, Some(anchor)));
    read(file).is_some_and(|page| anchor.is_none_or(|anchor| anchors(&page).contains(anchor)))
}

#[test]
fn every_test_and_page_in_the_table_of_sources_exists() {
    let tests = test_names(&tree::sources());
    let read = |page: &str| fs::read_to_string(tree::root().join("docs").join(page)).ok();
    let (mut violations, mut seen) = (Vec::new(), 0);
    for file in FILES {
        let table = fs::read_to_string(tree::root().join(FOLDER).join(file)).unwrap();
        let (named, pages) = (items(&table, "tests"), items(&table, "pages"));
        seen += named.len();
        let missing = named.iter().filter(|name| !tests.contains(**name));
        violations.extend(missing.map(|name| format!("{FOLDER}/{file}: there is no test {name}")));
        let missing = pages.iter().filter(|page| !page_exists(page, read));
        violations.extend(missing.map(|page| format!("{FOLDER}/{file}: there is no page docs/{page}")));
    }
    tree::assert_none(&violations);
    assert!(seen > 300, "the table names {seen} tests");
}

#[test]
fn the_items_of_the_table_are_found() {
    let table = "# comment\n- {source: A, tests: [one, two], pages: ['a.md#b-c']}\n- {source: B, tests: [three], decision: d}\n";
    assert_eq!(items(table, "tests"), ["one", "two", "three"]);
    assert_eq!(items(table, "pages"), ["a.md#b-c"]);
    let read = |page: &str| (page == "a.md").then(|| "# A\n## B `c`: d\n".to_owned());
    for (path, exists) in [("a.md", true), ("a.md#b-c-d", true), ("a.md#b", false), ("b.md", false)] {
        assert_eq!(page_exists(path, read), exists, "{path}");
    }
}
