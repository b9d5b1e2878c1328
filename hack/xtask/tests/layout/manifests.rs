//! Manifests: every crate has the lints and dependencies of the workspace, and those are declared without default features.

use super::{source::Source, tree};
use std::{fs, process::Command};
use toml::{Table, Value};

/// Dependencies without default features, or with default features that every crate needs.
const DEFAULTS_ARE_FINE: [&str; 3] = ["expect-test", "serde-saphyr", "thiserror"];

/// Packages that a pure crate must not depend on, directly or indirectly.
const IMPURE: [&str; 4] = ["tokio", "hyper", "kube-client", "kube-runtime"];

/// One entry of a table of dependencies.
pub(crate) struct Dependency {
    /// The name of the table, such as `dev-dependencies`.
    pub(crate) table: String,
    pub(crate) name: String,
    value: Value,
}

/// An invalid manifest is an empty table. Cargo reports its errors before any test runs.
pub(crate) fn parse(manifest: &Source) -> Table {
    manifest.text.parse().unwrap_or_default()
}

/// All dependencies of a crate, those of single platforms included.
pub(crate) fn dependencies(manifest: &Table) -> Vec<Dependency> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let platforms = platforms.filter_map(|(_, platform)| platform.as_table());
    let mut dependencies = Vec::new();
    for tables in std::iter::once(manifest).chain(platforms) {
        for (table, entries) in tables.iter().filter(|(table, _)| table.ends_with("dependencies")) {
            let entries = entries.as_table().into_iter().flatten();
            dependencies.extend(entries.map(|(name, value)| Dependency {
                table: table.clone(),
                name: name.clone(),
                value: value.clone(),
            }));
        }
    }
    dependencies
}

/// Whether the value is a table with `workspace = true`.
fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

fn without_workspace_lints(manifest: &Source) -> Vec<String> {
    if parse(manifest).get("lints").is_some_and(is_inherited) {
        return Vec::new();
    }
    vec![format!("{}: lacks `[lints] workspace = true`", manifest.path)]
}

fn with_own_versions(manifest: &Source) -> Vec<String> {
    let own = dependencies(&parse(manifest)).into_iter().filter(|dependency| !is_inherited(&dependency.value));
    own.map(|Dependency { name, .. }| format!("{}: {name} is not inherited from the workspace", manifest.path))
        .collect()
}

fn with_default_features(root: &Source) -> Vec<String> {
    let manifest = parse(root);
    let declared =
        manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")).and_then(Value::as_table);
    let has_defaults = |(name, value): &(&String, &Value)| {
        value.get("path").is_none()
            && value.get("default-features").and_then(Value::as_bool) != Some(false)
            && !DEFAULTS_ARE_FINE.contains(&name.as_str())
    };
    let found = declared.into_iter().flatten().filter(has_defaults);
    found.map(|(name, _)| format!("{}: {name} is declared with its default features", root.path)).collect()
}

/// What the toolchain lacks: the components of the lints, or the version of the image that builds the services.
fn missing_from_toolchain(toolchain: &str, containerfile: &str) -> Vec<String> {
    let file: Table = toolchain.parse().unwrap_or_default();
    let field = |name: &str| file.get("toolchain").and_then(|toolchain| toolchain.get(name));
    let components = field("components").and_then(Value::as_array);
    let has =
        |name: &str| components.is_some_and(|names| names.iter().any(|component| component.as_str() == Some(name)));
    let lacking = ["clippy", "rustfmt"].into_iter().filter(|name| !has(name));
    let mut missing: Vec<String> = lacking.map(|name| format!("rust-toolchain.toml: lacks {name}")).collect();
    let version = field("channel").and_then(Value::as_str).unwrap_or_default();
    if !containerfile.contains(&format!("FROM rust:{version}-")) {
        missing.push(format!("deploy/Containerfile: builds with another version than {version}"));
    }
    missing
}

/// Whether the README names exactly the version of Kubernetes that the tests run.
fn names_tested_kubernetes(go_mod: &str, readme: &str) -> bool {
    let module = |line: &str| line.trim().strip_prefix("k8s.io/kubernetes v").map(str::to_owned);
    let version = go_mod.lines().find_map(module).unwrap_or_default();
    let version = version.split_whitespace().next().unwrap_or_default();
    !version.is_empty() && readme.contains(&format!("All tests run on Kubernetes {version}, so"))
}

/// `listing` has one package per line, with the name first, as `cargo tree --prefix none` prints it.
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
    tree::assert_none(&tree::manifests().iter().flat_map(without_workspace_lints).collect::<Vec<_>>());
}

#[test]
fn a_crate_with_its_own_lints_is_found() {
    let manifest =
        Source::new("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[lints.rust]\nunsafe_code = \"allow\"\n");
    tree::assert_one(&without_workspace_lints(&manifest), "lacks");
}

#[test]
fn every_dependency_is_declared_once() {
    tree::assert_none(&tree::manifests().iter().flat_map(with_own_versions).collect::<Vec<_>>());
}

#[test]
fn a_dependency_with_its_own_version_is_found() {
    let inherited =
        "[dependencies]\nserde.workspace = true\nkube = { workspace = true }\n[dependencies.syn]\nworkspace = true\n";
    for own in
        ["[dev-dependencies]\ntokio = \"1\"\n", "[target.'cfg(unix)'.dependencies]\ntokio = { version = \"1\" }\n"]
    {
        let manifest = Source::new("crates/a/Cargo.toml", &[inherited, own].concat());
        tree::assert_one(&with_own_versions(&manifest), "tokio is not inherited");
    }
}

#[test]
fn workspace_dependencies_come_without_default_features() {
    let manifest = fs::read_to_string(tree::root().join("Cargo.toml")).unwrap();
    tree::assert_none(&with_default_features(&Source::new("Cargo.toml", &manifest)));
}

#[test]
fn a_dependency_with_default_features_is_found() {
    let manifest = "[workspace.dependencies]\na = { path = \"a\" }\nserde = { version = \"1\", default-features = false }\ntokio = \"1\"\n";
    let manifest = Source::new("Cargo.toml", manifest);
    tree::assert_one(&with_default_features(&manifest), "tokio is declared with its default features");
}

#[test]
fn api_types_are_free_of_tokio() {
    let arguments = ["tree", "-p", "grove-api-types", "-e", "normal", "--prefix", "none", "--offline", "--locked"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(tree::root()).output().unwrap();
    let listing = String::from_utf8_lossy(&output.stdout);
    assert!(listing.starts_with("grove-api-types"), "{}", String::from_utf8_lossy(&output.stderr));
    tree::assert_none(&impure_packages(&listing));
}

#[test]
fn an_impure_package_below_api_types_is_found() {
    let listing = "grove-api-types v0.1.0 (/x)\nserde v1.0.0\ntokio v1.0.0\ntokio-macros v2.0.0\ntokio v1.0.0 (*)\n";
    tree::assert_one(&impure_packages(listing), "depends on tokio");
}

#[test]
fn the_toolchain_has_the_components_of_the_lints_and_the_version_of_the_image() {
    let [toolchain, containerfile] = ["rust-toolchain.toml", "deploy/Containerfile"]
        .map(|file| fs::read_to_string(tree::root().join(file)).unwrap());
    tree::assert_none(&missing_from_toolchain(&toolchain, &containerfile));
}

#[test]
fn a_toolchain_without_a_component_or_of_another_version_is_found() {
    let toolchain = |components: &str| format!("[toolchain]\nchannel = \"1.2.3\"\ncomponents = {components}\n");
    let complete = toolchain("[\"clippy\", \"rustfmt\"]");
    tree::assert_none(&missing_from_toolchain(&complete, "FROM rust:1.2.3-slim\n"));
    tree::assert_one(&missing_from_toolchain(&complete, "FROM rust:1.2.30-slim\n"), "another version than 1.2.3");
    tree::assert_one(&missing_from_toolchain(&toolchain("[\"clippy\"]"), "FROM rust:1.2.3-slim\n"), "lacks rustfmt");
}

#[test]
fn the_readme_names_the_tested_version_of_kubernetes() {
    let [go_mod, readme] =
        ["hack/controlplane/go.mod", "README.md"].map(|file| fs::read_to_string(tree::root().join(file)).unwrap());
    assert!(names_tested_kubernetes(&go_mod, &readme));
    let other = "tool k8s.io/kubernetes/cmd/kubectl\n\tk8s.io/kubernetes v9.9.9 // indirect\n";
    assert!(!names_tested_kubernetes(other, &readme) && !names_tested_kubernetes("", &readme));
}
