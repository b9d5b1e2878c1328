//! The page of metrics has the name, the services and the help text of each metric in the code, and operations.md describes each of them.

use super::{
    source::{Source, string_text},
    tree,
};
use expect_test::expect_file;
use std::{collections::BTreeMap, fs};

const HEADER: &str = "\
# Metrics

The metrics of the services, with the texts that `/metrics` shows. [Operations](operations.md#a-process) describes their labels and meanings. A
test compares this table with the code; `UPDATE_EXPECT=1 cargo test -p xtask --test layout metrics` writes it.

| metric | services | help |
|---|---|---|
";
/// The first words of the names of metrics.
const PREFIXES: [&str; 5] = ["grove_", "controller_runtime_", "workqueue_", "leader_election_", "reflector_"];

/// The services with the metrics that a crate registers.
fn services(krate: &str, file: &str) -> &'static str {
    match (krate, file) {
        ("grove-runtime", _) => "all",
        // The levels of shared claims.
        ("grove-controller", "resource_claims.rs") => "pcs-controller, pclq-controller",
        ("grove-controller", _) => "all controllers",
        ("webhook-server", _) => "webhook-server",
        ("compute-domain-daemon", _) => "compute-domain-daemon",
        ("pcs-controller", _) => "pcs-controller",
        _ => "unknown",
    }
}

fn is_metric(text: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    PREFIXES.iter().any(|prefix| text.starts_with(prefix)) && !text.ends_with('_') && text.chars().all(is_name)
}

/// Each metric with its row. In the code, the help text follows the name.
fn rows(sources: &[Source]) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for source in sources {
        let Some(krate) = source.krate() else { continue };
        let services = services(krate, source.within(krate).unwrap_or_default());
        let literals: Vec<_> =
            source.shipped_code().literals.into_iter().filter_map(|of| string_text(&of.text)).collect();
        for pair in literals.windows(2).filter(|pair| is_metric(&pair[0])) {
            rows.insert(pair[0].clone(), format!("| `{}` | {services} | {} |\n", pair[0], pair[1]));
        }
    }
    rows
}

/// The metrics that a page does not name in its table.
fn undescribed(page: &str, metrics: &BTreeMap<String, String>) -> Vec<String> {
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let is_described = |metric: &str| rows.iter().any(|row| row.contains(&format!("`{metric}`")));
    metrics.keys().filter(|metric| !is_described(metric)).cloned().collect()
}

#[test]
fn the_page_of_metrics_has_each_metric() {
    let rows = rows(&tree::sources());
    let page: String = std::iter::once(HEADER.to_owned()).chain(rows.values().cloned()).collect();
    expect_file![tree::root().join("docs/metrics.md")].assert_eq(&page);
    assert!(!page.contains("| unknown |"), "{page}");
    let operations = fs::read_to_string(tree::root().join("docs/operations.md")).unwrap();
    tree::assert_none(&undescribed(&operations, &rows));
}

#[test]
fn a_metric_is_found_by_its_name() {
    let code = "fn a() { Opts::new(\"grove_a_total\", \"Counts \\\n     a.\"); b(\"grove.io\", \"kind\"); }";
    let found = rows(&[Source::new("crates/webhook-server/src/a.rs", code)]);
    assert_eq!(found.into_values().collect::<Vec<_>>(), ["| `grove_a_total` | webhook-server | Counts a. |\n"]);
    let metrics = BTreeMap::from([("grove_a_total".to_owned(), String::new())]);
    tree::assert_none(&undescribed("| `grove_a_total` | | |\n", &metrics));
    tree::assert_one(&undescribed("| `grove_b_total` | | |\n`grove_a_total`\n", &metrics), "grove_a_total");
}
