//! Marks of unfinished work, sleeps in end-to-end tests, and object names that are joined outside of `names.rs`.

use super::{
    source::{Fragment, Source, is_whole_word},
    tree,
};

/// Concatenated, so that this file does not contain the marks.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("unimplemented", "!"),
    concat!("todo", "!"),
];

/// A timeout of a future that never completes is a sleep, too.
const SLEEPS: [&str; 3] = ["sleep(", "pending(", "pending::<"];

const NAMES: &str = "crates/grove-api-types/src/names";

fn unfinished(source: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let marks =
            UNFINISHED.iter().filter(|mark| line.match_indices(**mark).any(|(at, _)| is_whole_word(line, at, mark)));
        violations.extend(marks.map(|mark| format!("{}:{}: {mark}", source.path, at + 1)));
    }
    violations
}

fn sleeps(source: &Source) -> Vec<String> {
    if !source.path.starts_with("e2e/tests/") {
        return Vec::new();
    }
    let code = source.code();
    let lines = SLEEPS.iter().flat_map(|sleep| code.lines_with(sleep));
    lines.map(|line| format!("{}:{line}: wait for a state, not for time", source.path)).collect()
}

/// Literals that join two values with a dash. Only `names.rs` builds names.
fn joined_names(source: &Source) -> Vec<String> {
    let is_names = source.path.strip_prefix(NAMES).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    if source.krate().is_none()
        || matches!(source.krate(), Some("grove-process" | "grove-runtime" | "grove-controller"))
        || is_names
    {
        return Vec::new();
    }
    let is_joined = |literal: &Fragment| {
        let joins = |(at, _): (usize, &str)| is_placeholder(&literal.text, at);
        literal.text.match_indices("}-{").any(joins)
    };
    let code = source.shipped_code();
    let message = |literal: &Fragment| {
        format!("{}:{}: {} builds a name outside names.rs", source.path, literal.line, literal.text)
    };
    code.literals.iter().filter(|literal| is_joined(literal)).map(message).collect()
}

/// Whether the brace at `at` closes a placeholder and the brace after the dash opens one; `{{` and `}}` are escaped braces.
fn is_placeholder(text: &str, at: usize) -> bool {
    !text[..at].ends_with('}') && !text[at + 3..].starts_with('{')
}

#[test]
fn nothing_is_left_unfinished() {
    let files = tree::files(&[".rs", ".toml", ".md", ".yaml", ".yml"]);
    tree::assert_none(&files.iter().flat_map(unfinished).collect::<Vec<_>>());
}

#[test]
fn a_mark_of_unfinished_work_is_found() {
    for mark in UNFINISHED {
        tree::assert_one(&unfinished(&Source::new("a.rs", &format!("fn a() {{}}\n// {mark} later\n"))), mark);
    }
    tree::assert_none(&unfinished(&Source::new("a.rs", "const TODOS: usize = 0;\n")));
}

#[test]
fn end_to_end_tests_do_not_sleep() {
    tree::assert_none(&tree::sources().iter().flat_map(sleeps).collect::<Vec<_>>());
}

#[test]
fn a_sleep_in_a_test_is_found() {
    for call in [
        "std::thread::sleep(one)",
        "tokio::time::sleep(one).await",
        "sleep(one)",
        "timeout(one, pending::<()>()).await",
    ] {
        let planted = Source::new("e2e/tests/it/scale.rs", &format!("async fn a() {{ {call}; }}"));
        tree::assert_one(&sleeps(&planted), "wait for a state");
    }
}

#[test]
fn names_are_built_in_one_file() {
    tree::assert_none(&tree::sources().iter().flat_map(joined_names).collect::<Vec<_>>());
}

#[test]
fn a_name_built_elsewhere_is_found() {
    let planted = |path: &str| {
        Source::new(path, "fn a() -> String { format!(\"{set}-{replica}\") }\n#[cfg(test)]\nmod tests {}\n")
    };
    for path in ["crates/grove-api-types/src/expansion.rs", "crates/pcs-controller/src/set/desired/service.rs"] {
        tree::assert_one(&joined_names(&planted(path)), "outside names.rs");
    }
    tree::assert_none(&joined_names(&planted("crates/grove-api-types/src/names.rs")));
    tree::assert_none(&joined_names(&planted("crates/pcs-controller/src/set/tests.rs")));
    tree::assert_none(&joined_names(&Source::new(
        "crates/pcs-controller/src/a.rs",
        "fn a() { b(\"{{a}}-{{b}}\") } // {a}-{b}",
    )));
}
