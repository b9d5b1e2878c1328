//! Dependencies between the crates of the workspace: api-types ← process ← runtime ← controller ← services, and no service uses another.

use super::{
    manifests::{Dependency, dependencies, parse},
    source::Source,
    tree,
};
use toml::Value;

const SUPPORT: &str = "grove-test-support";
const HARNESS: &str = "grove-dev-harness";
const OURS: [&str; 16] = [
    "grove-api-types",
    "grove-process",
    "grove-runtime",
    "grove-controller",
    "pcs-controller",
    "pclq-controller",
    "topology-controller",
    "mnnvl-controller",
    "webhook-server",
    "compute-domain-daemon",
    "grove-initc",
    "grove-rehearsal",
    "kubectl-grove",
    SUPPORT,
    HARNESS,
    "xtask",
];
const SERVICES: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"];

/// Which of our crates `krate` may use; `None` for a crate that the map does not know.
fn allowed(krate: &str) -> Option<Vec<&'static str>> {
    let allowed = match krate {
        "grove-api-types" => vec![],
        "grove-process" | "grove-initc" | HARNESS => vec!["grove-api-types"],
        "grove-runtime" | "compute-domain-daemon" => vec!["grove-api-types", "grove-process"],
        "e2e" => vec!["grove-api-types", HARNESS],
        "grove-controller" => vec!["grove-api-types", "grove-runtime"],
        SUPPORT => vec!["grove-api-types"],
        "grove-rehearsal" => [&["grove-api-types", "grove-controller"], &SERVICES[..]].concat(),
        "kubectl-grove" => vec!["grove-api-types", "grove-rehearsal"],
        "xtask" => OURS.to_vec(),
        service if SERVICES.contains(&service) => vec!["grove-api-types", "grove-runtime", "grove-controller"],
        _ => return None,
    };
    Some(allowed)
}

/// Crates that only tests use: allowed under `[dev-dependencies]` alone. Tests of e2e use no code of the services.
fn is_for_tests(dependency: &str, krate: &str) -> bool {
    dependency == SUPPORT || (dependency == "grove-rehearsal" && krate != "e2e")
}

fn forbidden_edges(manifest: &Source) -> Vec<String> {
    let table = parse(manifest);
    let krate =
        table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str).unwrap_or_default();
    let Some(allowed) = allowed(krate) else {
        return vec![format!("{}: {krate} is not on the crate map of this test", manifest.path)];
    };
    let mut violations = Vec::new();
    for Dependency { table, name, .. } in dependencies(&table) {
        if !(OURS.contains(&name.as_str()) || name == "e2e") {
            continue;
        }
        let is_for_tests = table == "dev-dependencies" && is_for_tests(&name, krate);
        let ships_tests = name == SUPPORT && table != "dev-dependencies";
        if ships_tests || !(is_for_tests || allowed.contains(&name.as_str())) {
            violations.push(format!("{}: {krate} may not use {name} in [{table}]", manifest.path));
        }
    }
    violations
}

#[test]
fn crates_use_only_what_the_map_allows() {
    tree::assert_none(&tree::manifests().iter().flat_map(forbidden_edges).collect::<Vec<_>>());
}

#[test]
fn every_forbidden_edge_is_found() {
    for (krate, kind, dependency) in [
        ("grove-api-types", "dependencies", "grove-runtime"),
        ("grove-process", "dependencies", "grove-runtime"),
        ("grove-runtime", "dependencies", "grove-controller"),
        ("compute-domain-daemon", "dependencies", "grove-runtime"),
        ("grove-controller", "dependencies", "pcs-controller"),
        ("pcs-controller", "dependencies", "pclq-controller"),
        ("pclq-controller", "dev-dependencies", "pcs-controller"),
        ("pclq-controller", "dependencies", "grove-test-support"),
        ("e2e", "dependencies", "grove-runtime"),
        ("e2e", "dev-dependencies", "pcs-controller"),
        ("e2e", "dev-dependencies", "grove-rehearsal"),
        ("pcs-controller", "dependencies", "grove-dev-harness"),
        ("webhook-server", "dev-dependencies", "grove-dev-harness"),
        ("grove-dev-harness", "dependencies", "grove-runtime"),
        ("xtask", "dependencies", "grove-test-support"),
        ("grove-initc", "target.'cfg(unix)'.dependencies", "grove-runtime"),
    ] {
        let text =
            format!("[package]\nname = \"{krate}\"\n[{kind}]\nserde.workspace = true\n{dependency}.workspace = true\n");
        tree::assert_one(
            &forbidden_edges(&Source::new("Cargo.toml", &text)),
            &format!("{krate} may not use {dependency}"),
        );
        let table = format!("[package]\nname = \"{krate}\"\n[{kind}.{dependency}]\nworkspace = true\n");
        tree::assert_one(
            &forbidden_edges(&Source::new("Cargo.toml", &table)),
            &format!("{krate} may not use {dependency}"),
        );
    }
}

#[test]
fn an_allowed_edge_passes_and_an_unknown_crate_is_found() {
    let manifest = |krate: &str| {
        let text = "\n[dependencies]\ngrove-runtime.workspace = true\n[dev-dependencies]\ngrove-test-support.workspace = true\n";
        Source::new("Cargo.toml", &format!("[package]\nname = \"{krate}\"{text}"))
    };
    tree::assert_none(&forbidden_edges(&manifest("pcs-controller")));
    tree::assert_one(&forbidden_edges(&manifest("grove-common")), "not on the crate map");
}
