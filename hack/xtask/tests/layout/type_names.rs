//! A type is not named by a participle alone: `Loaded` and `Processing` do not name the object.

use super::{source::Source, tree};

/// Names of one word that end like a participle, each with the reason.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("Debugging", "a section of the configuration"),
    ("Misspelling", "a noun"),
    ("Observed", "the snapshot of each reconciler has this name"),
    ("Waiting", "a reason and a message, like the state `waiting` of a container in Kubernetes"),
];

const KEYWORDS: [&str; 3] = ["struct", "enum", "trait"];

/// The structs, enums and traits of a file with a name of one word that ends in `ed` or `ing`, each with its line.
fn participles(source: &Source) -> Vec<(usize, String)> {
    let is_checked = ["crates/", "hack/"].iter().any(|folder| source.path.starts_with(folder));
    if !is_checked || !source.path.contains("/src/") {
        return Vec::new();
    }
    let (code, mut found) = (source.code(), Vec::new());
    for (at, line) in code.text.lines().enumerate() {
        let words: Vec<&str> = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).collect();
        let definitions = words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0]) && is_participle(pair[1]));
        found.extend(definitions.map(|pair| (at + 1, pair[1].to_owned())));
    }
    found
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().filter(|letter| letter.is_uppercase()).count() == 1;
    is_one_word && (name.ends_with("ed") || name.ends_with("ing"))
}

fn is_excepted(name: &str) -> bool {
    EXCEPTIONS.iter().any(|(excepted, _)| *excepted == name)
}

fn participle_types(source: &Source) -> Vec<String> {
    let found = participles(source).into_iter().filter(|(_, name)| !is_excepted(name));
    found.map(|(line, name)| format!("{}:{line}: {name} names no object", source.path)).collect()
}

#[test]
fn no_type_is_named_by_a_participle_alone() {
    let sources = tree::sources();
    tree::assert_none(&sources.iter().flat_map(participle_types).collect::<Vec<_>>());
    // An exception without a type would be a hole in the rule.
    let found: Vec<String> = sources.iter().flat_map(participles).map(|(_, name)| name).collect();
    for (name, reason) in EXCEPTIONS {
        assert!(found.iter().any(|other| other == name), "{name} is excepted ({reason}), but there is no such type");
    }
}

#[test]
fn a_participle_alone_is_found() {
    for definition in
        ["pub struct Loaded {", "enum Used<'a> {", "pub(crate) trait Pending: Send {", "struct Processing;"]
    {
        let planted = Source::new("crates/a/src/b.rs", &format!("//! A.\n{definition}\n"));
        tree::assert_one(&participle_types(&planted), "b.rs:2");
        tree::assert_one(&participle_types(&Source::new("hack/a/src/b.rs", definition)), "b.rs:1");
        tree::assert_none(&participle_types(&Source::new("e2e/src/b.rs", definition)));
    }
    let text = "struct LoadedFile; enum Observed {} struct Item; // struct Loaded\nfn a() { b(\"trait Pending\") }";
    tree::assert_none(&participle_types(&Source::new("crates/a/src/b.rs", text)));
}
