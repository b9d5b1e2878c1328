//! The page about the interface between the services has each label, annotation, gate and finalizer of Grove.

use super::{
    source::{Source, string_text},
    tree,
};
use std::{collections::BTreeSet, fs};

const PAGE: &str = "docs/interface.md";
/// The files with the keys.
const FILES: [&str; 2] = ["crates/grove-api-types/src/labels.rs", "crates/grove-api-types/src/finalizers.rs"];
/// A key contains this, and more behind it.
const PREFIX: &str = "grove.io/";

/// The keys in string literals of the code.
fn keys(source: &Source) -> BTreeSet<String> {
    let literals = source.shipped_code().literals.into_iter();
    let texts = literals.filter_map(|literal| string_text(&literal.text));
    texts.filter(|text| text.split_once(PREFIX).is_some_and(|(_, name)| !name.is_empty())).collect()
}

fn undescribed(page: &str, keys: &BTreeSet<String>) -> Vec<String> {
    let missing = keys.iter().filter(|key| !page.contains(&format!("`{key}`")));
    missing.map(|key| format!("{PAGE} does not describe {key}")).collect()
}

#[test]
fn the_page_about_the_interface_has_each_key() {
    let sources = tree::sources();
    let page = fs::read_to_string(tree::root().join(PAGE)).unwrap();
    let files: Vec<_> = sources.iter().filter(|source| FILES.contains(&source.path.as_str())).collect();
    assert_eq!(files.len(), FILES.len());
    let keys: BTreeSet<_> = files.into_iter().flat_map(keys).collect();
    assert!(keys.len() > 20, "{keys:?}");
    tree::assert_none(&undescribed(&page, &keys));
}

#[test]
fn a_key_without_description_is_found() {
    let code = "pub const A: &str = \"grove.io/a\"; pub const P: &str = \"grove.io/\"; pub const O: &str = \"app/b\";";
    let keys = keys(&Source::new(FILES[0], code));
    tree::assert_none(&undescribed("label `grove.io/a`", &keys));
    tree::assert_one(&undescribed("label `grove.io/ab`", &keys), "grove.io/a");
}
