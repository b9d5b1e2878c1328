//! Documents: the architecture page links every decision record, the rows of the threat model name existing tests, and all named Rust files
//! exist.

use super::{source::Source, tree};
use std::{collections::BTreeSet, fs, path::Path};

const PAGE: &str = "docs/architecture.md";
const THREAT_MODEL: &str = "docs/threat-model.md";
/// The last column of a row of the threat model without a test.
const WITHOUT_TEST: [&str; 2] = ["a property of Kubernetes", "a risk that remains"];
/// A test that compares files shows nothing about an attack.
const COMPARES_FILES: &str = "generated_files_are_fresh";
const DECISIONS: &str = "docs/adr/";

fn unlinked_decisions(page: &str, decisions: &[&str]) -> Vec<String> {
    let links = |path: &str| page.contains(&format!("]({})", path.trim_start_matches("docs/")));
    decisions.iter().filter(|path| !links(path)).map(|path| format!("{path} is not linked from {PAGE}")).collect()
}

/// The last column of each table of the threat model has the names of tests, or shows why there is none.
fn missing_tests_of_threat_model(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut violations = Vec::new();
    for (at, line) in page.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let column = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        let names: Vec<&str> = column.split('`').skip(1).step_by(2).collect();
        let missing = names.iter().filter(|name| !tests.contains(**name) || **name == COMPARES_FILES);
        violations.extend(missing.map(|name| format!("{THREAT_MODEL}:{}: there is no test {name}", at + 1)));
        if names.is_empty() && column != "test" && !WITHOUT_TEST.contains(&column) {
            violations.push(format!("{THREAT_MODEL}:{}: names no test", at + 1));
        }
    }
    violations
}

/// The paths of Rust files in inline code that no file has. A path may omit its first folders, and `<kind>/` is any folder.
fn missing_files(document: &Source, files: &[&str]) -> Vec<String> {
    let exists = |path: &str| files.iter().any(|file| *file == path || file.ends_with(&format!("/{path}")));
    let mut violations = Vec::new();
    for (at, line) in document.text.lines().enumerate() {
        let code = line.split('`').skip(1).step_by(2);
        let paths = code.map(|code| code.strip_prefix("<kind>/").unwrap_or(code));
        let paths = paths.filter(|path| {
            Path::new(path).extension().is_some_and(|extension| extension == "rs") && *path != "<kind>.rs"
        });
        let missing = paths.filter(|path| !exists(path));
        violations.extend(missing.map(|path| format!("{}:{}: there is no file {path}", document.path, at + 1)));
    }
    violations
}

/// The names of all functions under a `test` attribute.
pub(crate) fn test_names(sources: &[Source]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources {
        let mut is_test = false;
        for line in source.text.lines().map(str::trim) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name);
            if let Some(name) = name.filter(|_| is_test && !line.starts_with("//")) {
                names.insert(name.to_owned());
                is_test = false;
            }
        }
    }
    names
}

#[test]
fn every_decision_is_linked() {
    let page = fs::read_to_string(tree::root().join(PAGE)).unwrap();
    let files = tree::files(&[".md"]);
    let decisions: Vec<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| path.starts_with(DECISIONS)).collect();
    assert!(!decisions.is_empty());
    tree::assert_none(&unlinked_decisions(&page, &decisions));
}

#[test]
fn an_unlinked_decision_is_found() {
    let decisions = ["docs/adr/0001-a.md", "docs/adr/0002-b.md"];
    tree::assert_one(&unlinked_decisions("see [a](adr/0001-a.md)", &decisions), "0002-b.md is not linked");
}

#[test]
fn every_test_in_the_threat_model_exists() {
    let page = fs::read_to_string(tree::root().join(THREAT_MODEL)).unwrap();
    assert!(page.lines().filter(|line| line.starts_with("| ")).count() > 10);
    tree::assert_none(&missing_tests_of_threat_model(&page, &test_names(&tree::sources())));
}

#[test]
fn a_row_of_the_threat_model_without_its_test_is_found() {
    let tests: BTreeSet<String> = ["holds", COMPARES_FILES].map(str::to_owned).into();
    let missing = |rows: &str| missing_tests_of_threat_model(rows, &tests);
    tree::assert_none(&missing("| attack | test |\n|---|---|\n| an attack | `kubectl` | `holds` |"));
    tree::assert_none(&missing("| a risk | none | a risk that remains |\n| b | c | a property of Kubernetes |"));
    tree::assert_one(&missing("| an attack | none | `holds`, `no` |"), "no test no");
    tree::assert_one(&missing("| an attack | none | `generated_files_are_fresh` |"), "no test generated_files");
    tree::assert_one(&missing("| an attack | none | |"), "names no test");
}

#[test]
fn every_rust_file_in_a_document_exists() {
    let sources = tree::sources();
    let files: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    tree::assert_none(
        &tree::files(&[".md"]).iter().flat_map(|document| missing_files(document, &files)).collect::<Vec<_>>(),
    );
}

#[test]
fn a_missing_rust_file_is_found() {
    let files = ["crates/a/src/clique/plan/names.rs", "crates/a/src/clique/plan.rs"];
    let missing = |line: &str| missing_files(&Source::new(PAGE, line), &files);
    tree::assert_none(&missing("`clique/plan/names.rs`, `names.rs`, `<kind>/plan.rs`, `<kind>.rs` and `fn a()`"));
    for path in ["clique/plan/name.rs", "plan/ames.rs", "b/src/clique/plan.rs", "<kind>/status.rs"] {
        let line = format!("`names.rs` and `{path}`");
        tree::assert_one(
            &missing(&line),
            &format!("{PAGE}:1: there is no file {}", path.trim_start_matches("<kind>/")),
        );
    }
}
