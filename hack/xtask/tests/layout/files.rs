//! The names of files, and the sentence that each Rust file begins with.

use super::{source::Source, tree};

/// Names that do not describe the content; and `mod.rs`, because a module with submodules is `foo.rs` next to `foo/`.
const BANNED: [&str; 9] =
    ["mod.rs", "utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "misc.rs", "base.rs", "shared.rs"];

fn banned_name(source: &Source) -> Vec<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if BANNED.contains(&name) { vec![format!("{}: a file may not be called {name}", source.path)] } else { Vec::new() }
}

fn without_opening(source: &Source) -> Vec<String> {
    let opens =
        source.text.lines().next().is_some_and(|line| line.strip_prefix("//! ").is_some_and(|rest| rest.len() > 10));
    if opens { Vec::new() } else { vec![format!("{}: does not open with a `//!` sentence", source.path)] }
}

#[test]
fn files_have_descriptive_names() {
    tree::assert_none(&tree::sources().iter().flat_map(banned_name).collect::<Vec<_>>());
}

#[test]
fn a_banned_name_is_found() {
    for name in BANNED {
        tree::assert_one(&banned_name(&Source::new(&format!("crates/a/src/{name}"), "//! A.\n")), name);
    }
    tree::assert_none(&banned_name(&Source::new("crates/a/src/base_gang.rs", "//! A.\n")));
}

#[test]
fn files_open_with_a_sentence() {
    tree::assert_none(&tree::sources().iter().flat_map(without_opening).collect::<Vec<_>>());
}

#[test]
fn a_file_without_an_opening_is_found() {
    for text in ["", "use a::b;\n", "// A comment, but not of the module.\n", "//!\n//! Too late.\n"] {
        tree::assert_one(&without_opening(&Source::new("a.rs", text)), "does not open");
    }
    tree::assert_none(&without_opening(&Source::new("a.rs", "//! What this file is for.\nuse a::b;\n")));
}
