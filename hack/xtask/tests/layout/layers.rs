//! The layers of a reconciler import each other in one direction: status → plan, observed; plan → desired, observed; desired →
//! observed; observed → none. And the libraries for reconcilers name no kind of Grove.

use super::{local_paths::LocalPaths, source::Source, tree};

const LAYERS: [&str; 5] = ["observe", "observed", "desired", "plan", "status"];
const KINDS: [&str; 3] = ["PodClique", "PodGang", "ComputeDomain"];
/// Crates without reconcilers.
const LIBRARIES: [&str; 4] = ["grove-api-types", "grove-process", "grove-runtime", "grove-controller"];
/// Crates that name no kind of Grove.
const WITHOUT_KINDS: [&str; 3] = ["grove-process", "grove-runtime", "grove-controller"];

/// The other layers that `layer` may import.
fn allowed(layer: &str) -> &'static [&'static str] {
    match layer {
        "status" => &["plan", "observed"],
        "plan" => &["desired", "observed"],
        "desired" | "observe" => &["observed"],
        _ => &[],
    }
}

fn layer(source: &Source) -> Option<&'static str> {
    let path = source.within(source.krate()?).filter(|_| !source.is_test())?;
    let is_service = !path.is_empty() && !LIBRARIES.contains(&source.krate()?);
    let mut parts = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    parts.find_map(|part| LAYERS.into_iter().find(|layer| *layer == part)).filter(|_| is_service)
}

fn backward_imports(source: &Source) -> Vec<String> {
    let Some(layer) = layer(source) else { return Vec::new() };
    let Some(found) = LocalPaths::parse(&source.text) else {
        return vec![format!("{}: does not parse", source.path)];
    };
    let is_forbidden =
        |name: &&String| LAYERS.contains(&name.as_str()) && *name != layer && !allowed(layer).contains(&name.as_str());
    let mut violations = Vec::new();
    for path in found.paths {
        if let Some(other) = path.segments.iter().find(is_forbidden) {
            let import = path.segments.join("::");
            violations.push(format!("{}:{}: {layer} imports {other} ({import})", source.path, path.line));
        }
    }
    violations
}

fn kinds_in_libraries(source: &Source) -> Vec<String> {
    let names = |(at, line): (usize, &str)| {
        let kind = KINDS.iter().find(|kind| line.contains(**kind))?;
        Some(format!("{}:{}: names {kind}", source.path, at + 1))
    };
    if !WITHOUT_KINDS.iter().any(|krate| source.krate() == Some(krate)) {
        return Vec::new();
    }
    source.text.lines().enumerate().filter_map(names).collect()
}

#[test]
fn layers_are_imported_in_one_direction() {
    tree::assert_none(&tree::sources().iter().flat_map(backward_imports).collect::<Vec<_>>());
}

#[test]
fn every_backward_import_is_found() {
    for (file, line, message) in [
        ("observed.rs", "use super::desired::pod;", "observed imports desired"),
        ("observed.rs", "use crate::clique::{plan::scale, other};", "observed imports plan"),
        ("desired.rs", "use super::plan;", "desired imports plan"),
        ("desired/pod.rs", "fn a() { crate::clique::status::status() }", "desired imports status"),
        ("plan.rs", "use super::observe::*;", "plan imports observe"),
        ("plan/scale.rs", "fn a(b: super::super::status::Status) {}", "plan imports status"),
        ("plan.rs", "fn a() { format!(\"{}\", super::status::a()) }", "plan imports status"),
        ("status.rs", "use super::{observed::Observed, desired as other};", "status imports desired"),
        ("observe.rs", "use super::plan::plan;", "observe imports plan"),
    ] {
        let path = format!("crates/pclq-controller/src/clique/{file}");
        tree::assert_one(&backward_imports(&Source::new(&path, line)), message);
    }
}

#[test]
fn forward_imports_and_other_crates_are_allowed() {
    let text =
        "use super::{desired::pod, observed::Observed};\nuse grove_controller::plan::Plan;\nuse k8s::status::Status;\n";
    tree::assert_none(&backward_imports(&Source::new("crates/pclq-controller/src/clique/plan.rs", text)));
    tree::assert_none(&backward_imports(&Source::new(
        "crates/pclq-controller/src/clique.rs",
        "use self::status::status;\n",
    )));
}

#[test]
fn runtime_names_no_grove_kind() {
    tree::assert_none(&tree::sources().iter().flat_map(kinds_in_libraries).collect::<Vec<_>>());
}

#[test]
fn a_grove_kind_in_runtime_is_found() {
    for kind in KINDS {
        let text = format!("//! A cache.\nuse grove_api_types::{kind};\n");
        for krate in WITHOUT_KINDS {
            let planted = Source::new(&format!("crates/{krate}/src/caches.rs"), &text);
            tree::assert_one(&kinds_in_libraries(&planted), kind);
        }
    }
}
