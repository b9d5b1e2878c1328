//! Manifests: every crate takes the workspace's lints and dependencies, and those are declared without default features.

use super::{source::Source, tree};
use std::{fs, process::Command};

/// Dependencies that have no default features or none worth naming.
const DEFAULTS_ARE_FINE: [&str; 3] = ["expect-test", "serde-saphyr", "thiserror"];

/// What a pure crate may not have anywhere below it.
const IMPURE: [&str; 4] = ["tokio", "hyper", "kube-client", "kube-runtime"];

/// One `key = value` of a manifest and the table it is in.
pub(crate) struct Entry<'a> {
    pub(crate) table: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// The entries of a manifest; a value that goes on over several lines keeps its first.
pub(crate) fn entries(manifest: &str) -> Vec<Entry<'_>> {
    let mut table = "";
    let mut entries = Vec::new();
    for line in manifest.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = name;
        } else if let Some((key, value)) = line.split_once('=') {
            entries.push(Entry { table, key: key.trim(), value: value.trim() });
        }
    }
    entries
}

fn without_workspace_lints(manifest: &Source) -> Vec<String> {
    let inherits = entries(&manifest.text)
        .iter()
        .any(|entry| entry.table == "lints" && entry.key == "workspace" && entry.value == "true");
    if inherits { Vec::new() } else { vec![format!("{}: lacks `[lints] workspace = true`", manifest.path)] }
}

fn with_own_versions(manifest: &Source) -> Vec<String> {
    let entries = entries(&manifest.text);
    let dependencies = entries.iter().filter(|entry| entry.table.ends_with("dependencies"));
    let inherits = |entry: &Entry<'_>| {
        entry.key.ends_with(".workspace") || entry.value.replace(' ', "").contains("workspace=true")
    };
    let message = |entry: &Entry<'_>| format!("{}: {} is not taken from the workspace", manifest.path, entry.key);
    dependencies.filter(|entry| !inherits(entry)).map(message).collect()
}

fn with_default_features(root_manifest: &str) -> Vec<String> {
    let entries = entries(root_manifest);
    let external =
        entries.iter().filter(|entry| entry.table == "workspace.dependencies" && !entry.value.contains("path ="));
    let bare = |entry: &&Entry<'_>| {
        !entry.value.contains("default-features = false") && !DEFAULTS_ARE_FINE.contains(&entry.key)
    };
    external
        .filter(bare)
        .map(|entry| format!("Cargo.toml: {} is declared with its default features", entry.key))
        .collect()
}

/// `listing`: one package a line, name first, as `cargo tree --prefix none` prints it.
fn impure_packages(listing: &str) -> Vec<String> {
    let names = listing.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<String> =
        names.filter(|name| IMPURE.contains(name)).map(|name| format!("grove-api-types depends on {name}")).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    tree::hold(&tree::manifests().iter().flat_map(without_workspace_lints).collect::<Vec<_>>());
}

#[test]
fn a_crate_with_its_own_lints_is_found() {
    let manifest =
        Source::new("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[lints.rust]\nunsafe_code = \"allow\"\n");
    tree::turns_red(&without_workspace_lints(&manifest), "lacks");
}

#[test]
fn every_dependency_is_declared_once() {
    tree::hold(&tree::manifests().iter().flat_map(with_own_versions).collect::<Vec<_>>());
}

#[test]
fn a_dependency_with_its_own_version_is_found() {
    let manifest = Source::new(
        "crates/a/Cargo.toml",
        "[dependencies]\nserde.workspace = true\nkube = { workspace = true }\ntokio = \"1\"\n",
    );
    tree::turns_red(&with_own_versions(&manifest), "tokio is not taken from the workspace");
}

#[test]
fn workspace_dependencies_come_without_default_features() {
    let manifest = fs::read_to_string(tree::root().join("Cargo.toml")).unwrap();
    tree::hold(&with_default_features(&manifest));
}

#[test]
fn a_dependency_with_default_features_is_found() {
    let manifest = "[workspace.dependencies]\na = { path = \"a\" }\nserde = { version = \"1\", default-features = false }\ntokio = \"1\"\n";
    tree::turns_red(&with_default_features(manifest), "tokio is declared with its default features");
}

#[test]
fn api_types_are_free_of_tokio() {
    let arguments = ["tree", "-p", "grove-api-types", "-e", "normal", "--prefix", "none", "--offline", "--locked"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(tree::root()).output().unwrap();
    let listing = String::from_utf8_lossy(&output.stdout);
    assert!(listing.starts_with("grove-api-types"), "{}", String::from_utf8_lossy(&output.stderr));
    tree::hold(&impure_packages(&listing));
}

#[test]
fn tokio_below_api_types_is_found() {
    let listing = "grove-api-types v0.1.0 (/x)\nserde v1.0.0\ntokio v1.0.0\ntokio-macros v2.0.0\ntokio v1.0.0 (*)\n";
    tree::turns_red(&impure_packages(listing), "depends on tokio");
}
