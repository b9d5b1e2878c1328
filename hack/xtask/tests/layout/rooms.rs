//! The direction between the rooms of a reconciler: status → plan, observed; plan → desired, observed; desired →
//! observed; observed → none. And grove-runtime, which serves all reconcilers, names the kinds of none.

use super::{source::Source, tree};
use syn::visit::Visit;

const ROOMS: [&str; 5] = ["observe", "observed", "desired", "plan", "status"];
const KINDS: [&str; 3] = ["PodClique", "PodGang", "ComputeDomain"];

/// The rooms that `room` may use, itself not counted.
fn allowed(room: &str) -> &'static [&'static str] {
    match room {
        "status" => &["plan", "observed"],
        "plan" => &["desired", "observed"],
        "desired" | "observe" => &["observed"],
        _ => &[],
    }
}

fn room(source: &Source) -> Option<&'static str> {
    let path = source.within(source.krate()?)?;
    let is_service =
        !path.is_empty() && !["grove-api-types", "grove-runtime", "grove-controller"].contains(&source.krate()?);
    let mut parts = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    parts.find_map(|part| ROOMS.into_iter().find(|room| *room == part)).filter(|_| is_service && !source.is_test())
}

/// The paths of a file that begin in its own crate, one list of segments each, with the line.
#[derive(Default)]
struct LocalPaths {
    found: Vec<(usize, Vec<String>)>,
}

impl LocalPaths {
    fn add(&mut self, line: usize, segments: Vec<String>) {
        if segments.len() > 1 && ["crate", "super", "self"].contains(&segments[0].as_str()) {
            self.found.push((line, segments));
        }
    }

    fn add_use(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.add(name.ident.span().start().line, with(&name.ident)),
            syn::UseTree::Rename(rename) => self.add(rename.ident.span().start().line, with(&rename.ident)),
            syn::UseTree::Glob(glob) => self.add(glob.star_token.spans[0].start().line, before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_use(item, before)),
        }
    }
}

impl<'ast> Visit<'ast> for LocalPaths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        // A module of tests may look at everything.
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            let line = first.ident.span().start().line;
            self.add(line, path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }
}

fn backward_uses(source: &Source) -> Vec<String> {
    let Some(room) = room(source) else { return Vec::new() };
    let Ok(file) = syn::parse_file(&source.text) else {
        return vec![format!("{}: does not parse", source.path)];
    };
    let mut paths = LocalPaths::default();
    paths.visit_file(&file);
    let mut violations = Vec::new();
    for (line, segments) in paths.found {
        let forbidden =
            |name: &&String| ROOMS.contains(&name.as_str()) && *name != room && !allowed(room).contains(&name.as_str());
        if let Some(other) = segments.iter().find(forbidden) {
            violations.push(format!("{}:{line}: {room} uses {other} ({})", source.path, segments.join("::")));
        }
    }
    violations
}

fn kinds_in_runtime(source: &Source) -> Vec<String> {
    let names = |(at, line): (usize, &str)| {
        let kind = KINDS.iter().find(|kind| line.contains(**kind))?;
        Some(format!("{}:{}: grove-runtime names {kind}", source.path, at + 1))
    };
    if !["grove-runtime", "grove-controller"].iter().any(|krate| source.krate() == Some(krate)) {
        return Vec::new();
    }
    source.text.lines().enumerate().filter_map(names).collect()
}

#[test]
fn rooms_are_used_in_one_direction() {
    tree::hold(&tree::sources().iter().flat_map(backward_uses).collect::<Vec<_>>());
}

#[test]
fn every_backward_use_is_found() {
    for (file, line, words) in [
        ("observed.rs", "use super::desired::pod;", "observed uses desired"),
        ("observed.rs", "use crate::clique::{plan::scale, other};", "observed uses plan"),
        ("desired.rs", "use super::plan;", "desired uses plan"),
        ("desired/pod.rs", "fn a() { crate::clique::status::status() }", "desired uses status"),
        ("plan.rs", "use super::observe::*;", "plan uses observe"),
        ("plan/scale.rs", "fn a(told: super::super::status::Told) {}", "plan uses status"),
        ("status.rs", "use super::{observed::Observed, desired as wanted};", "status uses desired"),
        ("observe.rs", "use super::plan::plan;", "observe uses plan"),
    ] {
        let path = format!("crates/pclq-controller/src/clique/{file}");
        tree::turns_red(&backward_uses(&Source::new(&path, line)), words);
    }
}

#[test]
fn forward_uses_and_other_crates_are_fine() {
    let text =
        "use super::{desired::pod, observed::Observed};\nuse grove_runtime::plan::Plan;\nuse k8s::status::Status;\n";
    tree::hold(&backward_uses(&Source::new("crates/pclq-controller/src/clique/plan.rs", text)));
    tree::hold(&backward_uses(&Source::new("crates/pclq-controller/src/clique.rs", "use self::status::status;\n")));
}

#[test]
fn runtime_names_no_grove_kind() {
    tree::hold(&tree::sources().iter().flat_map(kinds_in_runtime).collect::<Vec<_>>());
}

#[test]
fn a_grove_kind_in_runtime_is_found() {
    for kind in KINDS {
        let text = format!("//! A cache.\nuse grove_api_types::{kind};\n");
        tree::turns_red(&kinds_in_runtime(&Source::new("crates/grove-runtime/src/caches.rs", &text)), kind);
    }
}
