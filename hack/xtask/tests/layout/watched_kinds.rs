//! Each kind that a service watches has a fuzz test: random edits of one object affect no other object of the kind.

use super::{source::Source, tree};
use std::collections::BTreeSet;

/// The text before the type of a watched kind: in the cache of an informer, and in a table of child kinds.
const WATCHED: [(&str, char); 2] = [("Cache<", '>'), ("type Object = ", ';')];
/// The text before the type in a fuzz test.
const FUZZED: (&str, char) = ("check_watched_kind!(", ',');
/// The libraries of the services. Their code is generic over the watched kinds.
const LIBRARIES: [&str; 4] = ["grove-api-types", "grove-runtime", "grove-controller", "grove-test-support"];

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

/// Whether the type is a parameter, such as `K` or `O::Object`.
fn is_parameter(kind: &str) -> bool {
    kind.split("::").next().is_some_and(|first| first.len() == 1)
}

/// The types that services watch, each with a file.
fn watched(sources: &[Source]) -> Vec<(String, &str)> {
    let mut watched = Vec::new();
    for source in sources.iter().filter(|source| source.krate().is_some_and(|krate| !LIBRARIES.contains(&krate))) {
        let code = source.shipped_code().text;
        let kinds = WATCHED.iter().flat_map(|place| types(&code, *place)).filter(|kind| !is_parameter(kind));
        watched.extend(kinds.map(|kind| (kind, source.path.as_str())));
    }
    watched
}

fn kinds_without_fuzz_test(sources: &[Source]) -> Vec<String> {
    let fuzzed: BTreeSet<String> = sources.iter().flat_map(|source| types(&source.code().text, FUZZED)).collect();
    let missing = watched(sources).into_iter().filter(|(kind, _)| !fuzzed.contains(kind));
    missing.map(|(kind, path)| format!("{path}: no test calls check_watched_kind!({kind}, …)")).collect()
}

#[test]
fn every_watched_kind_has_a_fuzz_test() {
    let sources = tree::sources();
    for service in ["pcs-controller", "pclq-controller", "webhook-server"] {
        let path = format!("crates/{service}/");
        assert!(watched(&sources).iter().any(|(_, file)| file.starts_with(&path)), "{service} watches no kind");
    }
    tree::assert_none(&kinds_without_fuzz_test(&sources));
}

#[test]
fn a_watched_kind_without_fuzz_test_is_found() {
    let service = |text: &str| Source::new("crates/a/src/b.rs", text);
    let test = Source::new("crates/b/src/tests.rs", "fn a() { check_watched_kind!(\n    Slim<Pod>,\n    x,\n); }");
    let missing = |text: &str| kinds_without_fuzz_test(&[service(text), Source::new(&test.path, &test.text)]);
    for text in ["struct A { b: Option<Cache<Pod>> }", "impl A for B {\n    type Object = Pod;\n}"] {
        tree::assert_one(&missing(text), "crates/a/src/b.rs: no test calls check_watched_kind!(Pod, …)");
    }
    for text in [
        "struct A { b: Cache<Slim<Pod>> }",
        "fn a<K>(b: &Cache<K>, c: Cache<O::Object>) {}",
        "#[cfg(test)]\nmod tests {\n    fn a(b: Cache<Pod>) {}\n}",
        "// Cache<Pod>",
    ] {
        tree::assert_none(&missing(text));
    }
    let library = Source::new("crates/grove-controller/src/a.rs", "fn a(b: Cache<Owner>) {}");
    tree::assert_none(&kinds_without_fuzz_test(&[library]));
}
