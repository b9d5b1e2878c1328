//! The names of files.

use super::{source::Source, tree};

/// Names that do not describe the content; and `mod.rs`, because a module with submodules is `foo.rs` next to `foo/`.
const BANNED: [&str; 9] =
    ["mod.rs", "utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "misc.rs", "base.rs", "shared.rs"];

fn banned_name(source: &Source) -> Vec<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if BANNED.contains(&name) { vec![format!("{}: a file may not be called {name}", source.path)] } else { Vec::new() }
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
