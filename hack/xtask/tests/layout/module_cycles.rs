//! Modules of a crate do not import each other in a cycle. An import of a submodule by a submodule of another module is an import
//! between the two modules. Imports between a module and one of its own submodules do not count.

use super::{local_paths::LocalPaths, source::Source, tree};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds the search for the definition of a re-exported name.
const MAX_RE_EXPORTS: usize = 8;

/// The modules of one crate, by their paths below the crate; the crate root is the empty path.
type Modules = BTreeMap<Vec<String>, Module>;

struct Module {
    file: String,
    paths: LocalPaths,
}

/// The first import from one module, or its submodules, to another with the same parent, or to the submodules of that.
type Edges = BTreeMap<(Vec<String>, Vec<String>), Import>;

struct Import {
    file: String,
    line: usize,
    of: Vec<String>,
}

/// The crate and the module of a source file; `None` for tests and build scripts.
fn module_of(source: &Source) -> Option<(String, Vec<String>)> {
    let (krate, path) = source.path.split_once("/src/").filter(|_| !source.is_test())?;
    let path = path.strip_suffix(".rs")?;
    let segments: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_root = matches!(path, "lib" | "main");
    // A binary beside a library is a crate of its own, whose modules are all the others.
    (!path.starts_with("bin/")).then_some((krate.to_owned(), if is_root { Vec::new() } else { segments }))
}

fn crates(sources: &[Source]) -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for source in sources {
        let Some((krate, module)) = module_of(source) else { continue };
        let Some(paths) = LocalPaths::parse(&source.text) else { continue };
        crates.entry(krate).or_default().insert(module, Module { file: source.path.clone(), paths });
    }
    crates
}

/// The segments of a local path, from the crate root.
fn absolute(module: &[String], inside: &[String], segments: &[String]) -> Vec<String> {
    let mut at = [module, inside].concat();
    let mut rest = segments;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = after;
    }
    [at.as_slice(), rest].concat()
}

/// The modules that a path names: its longest prefix that is a module, and if that module re-exports the next segment, the
/// modules of the re-exported path.
fn resolve(modules: &Modules, path: &[String], depth: usize) -> Vec<Vec<String>> {
    let length = (0..=path.len()).rev().find(|&length| modules.contains_key(&path[..length])).unwrap_or_default();
    let (module, rest) = path.split_at(length);
    let mut named = vec![module.to_vec()];
    let (Some(name), Some(found)) = (rest.first(), modules.get(module).filter(|_| depth > 0)) else { return named };
    let re_export = found.paths.re_exports.iter().find(|export| export.name == *name);
    if let Some(export) = re_export.filter(|export| is_in_crate(modules, module, &export.path)) {
        let target = absolute(module, &[], &export.path);
        named.extend(resolve(modules, &[target.as_slice(), &rest[1..]].concat(), depth - 1));
    }
    named
}

fn is_relative(path: &[String]) -> bool {
    path.first().is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str()))
}

/// Whether a re-exported path leads into the same crate. A path without `crate`, `super` or `self` begins with a submodule or
/// with the name of another crate.
fn is_in_crate(modules: &Modules, module: &[String], path: &[String]) -> bool {
    is_relative(path)
        || path.first().is_some_and(|first| modules.contains_key(&[module, std::slice::from_ref(first)].concat()))
}

/// The modules directly below the lowest common ancestor of two modules that contain them. `None` if one of the two contains
/// the other.
fn siblings(from: &[String], to: &[String]) -> Option<(Vec<String>, Vec<String>)> {
    let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
    (common < from.len().min(to.len())).then(|| (from[..=common].to_vec(), to[..=common].to_vec()))
}

fn edges(modules: &Modules) -> Edges {
    let mut edges = Edges::new();
    for (from, module) in modules {
        for path in &module.paths.paths {
            for of in resolve(modules, &absolute(from, &path.inside, &path.segments), MAX_RE_EXPORTS) {
                if let Some(edge) = siblings(from, &of) {
                    edges.entry(edge).or_insert_with(|| Import { file: module.file.clone(), line: path.line, of });
                }
            }
        }
    }
    edges
}

/// A shortest cycle through `start`, without `start` at its end.
fn cycle_through(start: &[String], edges: &Edges) -> Option<Vec<Vec<String>>> {
    let mut paths = vec![vec![start.to_vec()]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            let last = path.last().cloned().unwrap_or_default();
            for (_, to) in edges.keys().filter(|(from, _)| *from == last) {
                if to == start {
                    return Some(path);
                }
                if seen.insert(to.clone()) {
                    longer.push([path.as_slice(), std::slice::from_ref(to)].concat());
                }
            }
        }
        paths = longer;
    }
    None
}

/// One message for each cycle, with the line of each import.
fn cycles(sources: &[Source]) -> Vec<String> {
    let mut messages = Vec::new();
    for modules in crates(sources).values() {
        let edges = edges(modules);
        let mut reported = BTreeSet::new();
        for (start, _) in edges.keys() {
            let Some(cycle) = cycle_through(start, &edges) else { continue };
            if reported.insert(cycle.iter().cloned().collect::<BTreeSet<_>>()) {
                messages.push(message(&cycle, &edges));
            }
        }
    }
    messages
}

fn message(cycle: &[Vec<String>], edges: &Edges) -> String {
    let imports = cycle.iter().enumerate().map(|(at, from)| {
        let Import { file, line, of } = &edges[&(from.clone(), cycle[(at + 1) % cycle.len()].clone())];
        format!("{file}:{line} imports {}", of.join("::"))
    });
    imports.collect::<Vec<_>>().join(", ")
}

#[test]
fn modules_do_not_import_each_other_in_a_cycle() {
    tree::assert_none(&cycles(&tree::sources()));
}

fn planted(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source::new(&format!("crates/x/src/{path}"), text)).collect()
}

#[test]
fn a_cycle_is_found_over_several_modules() {
    let lib = ("lib.rs", "mod a; mod b; mod c;");
    let sources =
        planted(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "use super::c;"), ("c.rs", "fn c() { crate::a::x() }")]);
    tree::assert_one(&cycles(&sources), "crates/x/src/a.rs:1 imports b, crates/x/src/b.rs:1 imports c");
    let sources = planted(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "use super::c;"), ("c.rs", "")]);
    tree::assert_none(&cycles(&sources));
}

#[test]
fn a_cycle_over_submodules_is_found() {
    let lib = ("lib.rs", "mod a; mod b;");
    let sources = planted(&[lib, ("a.rs", "mod c; use crate::b::B;"), ("a/c.rs", ""), ("b.rs", "use crate::a::c::C;")]);
    tree::assert_one(&cycles(&sources), "crates/x/src/a.rs:1 imports b, crates/x/src/b.rs:1 imports a::c");
    let below = |d: &str| {
        let b = [("a/b.rs", "mod c;"), ("a/b/c.rs", "use crate::a::d::e::E; use super::super::b;")];
        planted(&[("lib.rs", "mod a;"), ("a.rs", "mod b; mod d;"), b[0], b[1], ("a/d.rs", d), ("a/d/e.rs", "")])
    };
    let found = cycles(&below("mod e; use super::b;"));
    tree::assert_one(&found, "crates/x/src/a/b/c.rs:1 imports a::d::e, crates/x/src/a/d.rs:1 imports a::b");
    tree::assert_none(&cycles(&below("mod e; use self::e::E;")));
}

#[test]
fn a_cycle_through_a_re_export_is_found() {
    let lib = ("lib.rs", "mod a; mod b; pub(crate) use a::A;");
    tree::assert_one(&cycles(&planted(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::A;")])), "imports a");
}

#[test]
fn submodules_tests_and_other_crates_do_not_count() {
    let sources = planted(&[
        ("lib.rs", "mod a; mod b; use a::A; pub use serde::de;"),
        ("a.rs", "mod c; use crate::b::B; pub struct A(c::C);"),
        ("a/c.rs", "use super::A; use crate::de::Error;"),
        ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ("b/tests.rs", "use crate::a::A;"),
    ]);
    tree::assert_none(&cycles(&sources));
}
