//! The features of a dependency must not depend on the selected packages. Otherwise Cargo compiles most dependencies once for
//! the verbs and again for the tests.

use super::tree;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// The features of each package by its name and version, as `cargo tree` prints them.
type Listing = BTreeMap<String, BTreeSet<String>>;

/// The packages that `up` selects, and those that `test` selects.
const SERVICES: [&str; 18] = [
    "-p",
    "xtask",
    "-p",
    "pcs-controller",
    "-p",
    "pclq-controller",
    "-p",
    "topology-controller",
    "-p",
    "mnnvl-controller",
    "-p",
    "webhook-server",
    "-p",
    "compute-domain-daemon",
    "-p",
    "grove-initc",
    "-e",
    "normal,build",
];
const TESTS: [&str; 3] = ["--workspace", "-e", "normal,build,dev"];

fn listed(text: &str) -> Listing {
    let mut listing = Listing::new();
    for line in text.lines().filter(|line| !line.contains("(/")) {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('(')).collect();
        let (package, features) = words.split_at(words.len().min(2));
        listing.entry(package.join(" ")).or_default().insert(features.concat());
    }
    listing
}

/// In the larger selection a package may have further variants, for code that only tests need.
fn variants(smaller: &Listing, larger: &Listing) -> Vec<String> {
    let differs = |(package, features): &(&String, &BTreeSet<String>)| {
        larger.get(*package).is_none_or(|others| !features.is_subset(others))
    };
    let message = |(package, features): (&String, &BTreeSet<String>)| {
        format!(
            "{package} is compiled with {features:?} for the services, with {:?} for the tests",
            larger.get(package)
        )
    };
    smaller.iter().filter(differs).map(message).collect()
}

fn tree_of(choice: &[&str]) -> std::io::Result<Listing> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["tree", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}", "--offline", "--locked"])
        .args(choice);
    let output = cargo.current_dir(tree::root()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(listed(&String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn services_and_tests_share_their_dependencies() {
    tree::assert_none(&variants(&tree_of(&SERVICES).unwrap(), &tree_of(&TESTS).unwrap()));
}

#[test]
fn a_feature_that_only_tests_have_is_found() {
    let services = listed("svc v0.1.0 (/x/svc) \ntokio v1.0.0 net,time\nsyn v2.0.0 (proc-macro) full\n");
    let tests = listed("tokio v1.0.0 net,test-util,time\nsyn v2.0.0 (proc-macro) full\nsyn v2.0.0 visit\n");
    tree::assert_one(&variants(&services, &tests), "tokio v1.0.0 is compiled with");
    tree::assert_none(&variants(&services, &services));
}
