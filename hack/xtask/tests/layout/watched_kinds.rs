//! Each kind that a service or a library watches has a fuzz test: random edits of one object affect no other object of the kind.

use super::{source::Source, tree};
use std::collections::BTreeSet;

/// The text before the type of a watched kind: in the cache of an informer, and in a table of child kinds.
const WATCHED: [(&str, char); 2] = [("Cache<", '>'), ("type Object = ", ';')];
/// A call of `Api::watch`. A file with such a call watches the types of its APIs.
const WATCH: &str = ".watch(";
const API: (&str, char) = ("Api<", '>');
/// The text before the type in a fuzz test: of a cache, and of any other watch.
const FUZZED: [(&str, char); 2] = [("check_watched_kind!(", ','), ("list_items::object::<", '>')];
/// The names of parameters with more than one letter.
const PARAMETERS: [&str; 4] = ["Owner", "Child", "Object", "Object<Self>"];
const TEST_SUPPORT: &str = "grove-test-support";

/// The types after each `begin`, up to `end`. The type may have parameters of its own.
fn types(code: &str, (begin, end): (&str, char)) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(begin) {
        let (mut depth, mut kind) = (0_usize, String::new());
        for letter in code[at + begin.len()..].chars() {
            if letter == end && depth == 0 {
                break;
            }
            match letter {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            kind.extend(Some(letter).filter(|letter| !letter.is_whitespace()));
        }
        found.insert(kind);
    }
    found
}

/// Whether the type is a parameter, such as `K`, `Owner` or `O::Object`.
fn is_parameter(kind: &str) -> bool {
    kind.split("::").next().is_some_and(|first| first.len() == 1 || PARAMETERS.contains(&first))
}

/// The types that services and libraries watch, each with a file.
fn watched(sources: &[Source]) -> Vec<(String, &str)> {
    let mut watched = Vec::new();
    for source in sources.iter().filter(|source| source.krate().is_some_and(|krate| krate != TEST_SUPPORT)) {
        let code = source.shipped_code().text;
        let mut kinds: BTreeSet<String> = WATCHED.iter().flat_map(|place| types(&code, *place)).collect();
        if code.contains(WATCH) {
            kinds.extend(types(&code, API));
        }
        let kinds = kinds.into_iter().filter(|kind| !is_parameter(kind));
        watched.extend(kinds.map(|kind| (kind, source.path.as_str())));
    }
    watched
}

fn kinds_without_fuzz_test(sources: &[Source]) -> Vec<String> {
    let mut fuzzed = BTreeSet::new();
    for source in sources {
        let code = source.code().text;
        fuzzed.extend(FUZZED.iter().flat_map(|place| types(&code, *place)));
    }
    let missing = watched(sources).into_iter().filter(|(kind, _)| !fuzzed.contains(kind));
    missing.map(|(kind, path)| format!("{path}: no test calls check_watched_kind!({kind}, …)")).collect()
}

#[test]
fn every_watched_kind_has_a_fuzz_test() {
    let sources = tree::sources();
    let watched = watched(&sources);
    for krate in ["pcs-controller", "pclq-controller", "webhook-server", "grove-runtime", "grove-controller"] {
        let path = format!("crates/{krate}/");
        assert!(watched.iter().any(|(_, file)| file.starts_with(&path)), "{krate} watches no kind");
    }
    tree::assert_none(&kinds_without_fuzz_test(&sources));
}

#[test]
fn a_watched_kind_without_fuzz_test_is_found() {
    let service = |text: &str| Source::new("crates/a/src/b.rs", text);
    let test = Source::new("crates/b/src/tests.rs", "fn a() { check_watched_kind!(\n    Slim<Pod>,\n    x,\n); }");
    let missing = |text: &str| kinds_without_fuzz_test(&[service(text), Source::new(&test.path, &test.text)]);
    for text in [
        "struct A { b: Option<Cache<Pod>> }",
        "impl A for B {\n    type Object = Pod;\n}",
        "struct A { b: Api<Pod> }\nfn c(a: &A) { a.b.watch(&d, e) }",
    ] {
        tree::assert_one(&missing(text), "crates/a/src/b.rs: no test calls check_watched_kind!(Pod, …)");
    }
    for text in [
        "struct A { b: Cache<Slim<Pod>> }",
        "struct A { b: Api<Pod> }",
        "fn a<K, Owner>(b: &Cache<K>, c: Cache<O::Object>, d: Cache<Owner>) {}",
        "#[cfg(test)]\nmod tests {\n    fn a(b: Cache<Pod>) {}\n}",
        "// Cache<Pod>",
    ] {
        tree::assert_none(&missing(text));
    }
    let library = Source::new("crates/grove-controller/src/a.rs", "fn a(b: Cache<Pod>) {}");
    tree::assert_one(&kinds_without_fuzz_test(&[library]), "crates/grove-controller/src/a.rs: no test calls");
    let test = Source::new("crates/b/src/tests.rs", "fn a() { list_items::object::<Pod>(&b) }");
    tree::assert_none(&kinds_without_fuzz_test(&[service("fn a(b: Api<Pod>) { b.watch(&c, d) }"), test]));
}
