//! Words that this repository does not use, because the field has a standard term: in identifiers, comments, documents, messages
//! and file names.

use super::{
    source::{Fragment, Source, is_whole_word},
    tree,
};
use std::collections::BTreeMap;

/// Words in prose and in identifiers, and what to write in their place.
const WORDS: [(&str, &str); 45] = [
    ("tell", "report, publish, write or log"),
    ("tells", "report, publish, write or log"),
    ("told", "report, publish, write or log"),
    ("telling", "report, publish, write or log"),
    ("tidings", "status change or event"),
    ("says", "report or show"),
    ("said", "report or show"),
    ("who", "the actual subject"),
    ("whom", "the actual subject"),
    ("whoever", "the actual subject"),
    ("whatever", "the actual subject"),
    ("nobody", "the actual subject"),
    ("somebody", "the actual subject"),
    ("namesake", "name conflict"),
    ("namesakes", "name conflicts"),
    ("relief", "quota released"),
    ("relieved", "quota released"),
    ("room", "layer, budget or quota"),
    ("rooms", "layers"),
    ("leaving", "terminating"),
    ("gone", "deleted or not found"),
    ("stands", "exists, is active or is a standby"),
    ("refuse", "reject, deny or forbid"),
    ("refuses", "rejects, denies or forbids"),
    ("refused", "rejected, denied or forbidden"),
    ("refusal", "rejection"),
    ("refusals", "rejections"),
    ("made", "created"),
    ("kept", "retained or stored"),
    ("starved", "rejected creates"),
    ("farewell", "delete events"),
    ("vouch", "sign"),
    ("vouches", "signs"),
    ("wakes", "triggers or enqueues"),
    ("woken", "triggered or enqueued"),
    ("acts", "reconciles"),
    ("plane", "control plane or dev cluster"),
    ("planes", "dev clusters"),
    ("keeper", "the name of the task"),
    ("obituary", "exit report"),
    ("strikes", "kills"),
    ("victim", "process under test"),
    ("victims", "processes under test"),
    ("bars", "thresholds"),
    ("wish", "arguments or desired state"),
];

/// Phrases in prose.
const PHRASES: [(&str, &str); 16] = [
    ("taken name", "name conflict"),
    ("heard of", "observed"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("went on", "continued"),
    ("looked after", "managed"),
    ("looks after", "manages"),
    ("looked at", "read or checked"),
    ("looks at", "reads or checks"),
    ("asked for", "requested"),
    ("asks for", "requests"),
    ("ask for", "request"),
    ("set back", "restored from backup"),
    ("by hand", "manually, or with a plain client"),
    ("on its way out", "terminating"),
    ("as it should be", "in the desired state"),
];

/// Parts of identifiers and file names that are fine in prose.
const IDENTIFIER_PARTS: [(&str, &str); 4] =
    [("heard", "observed"), ("asked", "requested"), ("apart", "standalone"), ("whose", "owner")];

/// Parts of file names.
const FILE_NAMES: [&str; 19] = [
    "announced",
    "apart",
    "bare",
    "bury",
    "known",
    "lanes",
    "load",
    "neighbours",
    "ourselves",
    "pace",
    "question",
    "shapes",
    "shown",
    "tally",
    "taken",
    "undefine",
    "unjudged",
    "wakes",
    "waits",
];

/// Names that contain one of the words: the end of the text before the word.
const PREFIXES: [(&str, &str); 4] =
    [("plane", "control "), ("plane", "control-"), ("planes", "control "), ("plane", "data ")];

/// Where a word has its usual meaning: the begin of the path, and the word.
const EXCEPTIONS: [(&str, &str); 1] = [
    // `Gone` is a reason of Kubernetes' `Status`.
    ("crates/grove-runtime/src/caches/reflector.rs", "gone"),
];

fn is_excepted(source: &Source, word: &str) -> bool {
    EXCEPTIONS.iter().any(|(path, excepted)| source.path.starts_with(path) && *excepted == word)
}

/// The forbidden words and phrases in a text.
fn in_prose(text: &str) -> Vec<(&'static str, &'static str)> {
    let lower = text.to_lowercase();
    let is_found = |word: &str| {
        lower.match_indices(word).any(|(at, _)| {
            let is_name = PREFIXES.iter().any(|(named, prefix)| *named == word && lower[..at].ends_with(prefix));
            is_whole_word(&lower, at, word) && !is_name
        })
    };
    WORDS.iter().chain(&PHRASES).filter(|(word, _)| is_found(word)).copied().collect()
}

/// Whether a sentence has a relative clause as its subject: `What is written stays.` Questions and headings are fine.
fn has_a_clause_as_subject(text: &str) -> bool {
    let text = text.trim_start_matches(['/', '!', ' ', '-', '*', '#', '|', '"']);
    let sentences = text.split_inclusive(['.', '?', '!']);
    let mut statements = sentences.map(str::trim_start).filter(|sentence| !sentence.ends_with('?'));
    statements.any(|sentence| {
        ["What is ", "What was ", "What are ", "What were "].iter().any(|begin| sentence.starts_with(begin))
    })
}

/// The line, with the begin of a name that the line before has: `control` before `plane`.
fn with_begin_of_name(before: &str, line: &str) -> String {
    let begin = before.split_whitespace().next_back().filter(|_| line.to_lowercase().starts_with("plane"));
    begin.map_or_else(|| line.to_owned(), |begin| format!("{begin} {line}"))
}

/// Text without inline code.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("_")
}

/// The words of an identifier: parts between underscores and capitals, in lower case.
fn parts(identifier: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for letter in identifier.chars() {
        if letter.is_uppercase() && was_lower {
            spaced.push('_');
        }
        was_lower = letter.is_lowercase();
        spaced.extend(letter.to_lowercase());
    }
    spaced.split('_').map(str::to_owned).collect()
}

/// The forbidden words in an identifier. The word `plane` is fine after `control`.
fn in_identifier(identifier: &str) -> Vec<(&'static str, &'static str)> {
    let parts = parts(identifier);
    let is_found = |word: &str| {
        let mut places = parts.iter().enumerate().filter(|(_, part)| *part == word);
        places.any(|(at, _)| !(word.starts_with("plane") && at > 0 && parts[at - 1] == "control"))
    };
    WORDS.iter().chain(&IDENTIFIER_PARTS).filter(|(word, _)| is_found(word)).copied().collect()
}

fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

fn message(source: &Source, line: usize, (word, instead): (&str, &str)) -> String {
    format!("{}:{line}: {word} (write: {instead})", source.path)
}

fn in_rust(source: &Source) -> Vec<String> {
    let code = source.code();
    let mut found = Vec::new();
    for (at, line) in code.text.lines().enumerate() {
        found.extend(identifiers(line).flat_map(in_identifier).map(|word| (at + 1, word)));
    }
    let mut prose: Vec<Fragment> = code.comments;
    // Tests compare with texts of other programs.
    prose.extend(source.shipped_code().literals);
    let mut before = String::new();
    for Fragment { line, text } in &prose {
        let text = with_begin_of_name(&before, &without_code(text.trim_start_matches(['/', '!', ' '])));
        before.clone_from(&text);
        found.extend(in_prose(&text).into_iter().map(|word| (*line, word)));
        if has_a_clause_as_subject(&text) {
            found.push((*line, ("What is …", "a concrete subject")));
        }
    }
    found.retain(|(_, (word, _))| !is_excepted(source, word));
    found.into_iter().map(|(line, word)| message(source, line, word)).collect()
}

/// The prose of a document, line by line; code blocks and inline code are blanked. `marker` begins the prose of a line, if only
/// comments are prose.
fn in_document(source: &Source, marker: Option<&str>) -> Vec<String> {
    let mut violations = Vec::new();
    let (mut is_code, mut before) = (false, String::new());
    for (at, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let prose = match marker {
            None if is_code => continue,
            None => line,
            Some(marker) => match line.find(marker) {
                Some(begin) if line[..begin].chars().all(char::is_whitespace) || line[..begin].ends_with(' ') => {
                    &line[begin + marker.len()..]
                }
                _ => continue,
            },
        };
        let prose = with_begin_of_name(&before, &without_code(prose.trim_start()));
        before.clone_from(&prose);
        let words = in_prose(&prose).into_iter().filter(|(word, _)| !is_excepted(source, word));
        violations.extend(words.map(|word| message(source, at + 1, word)));
        if has_a_clause_as_subject(&prose) && !line.starts_with('#') {
            violations.push(message(source, at + 1, ("What is …", "a concrete subject")));
        }
    }
    violations
}

fn in_file_name(source: &Source) -> Vec<String> {
    let path = source.path.to_lowercase();
    let parts = path.split(['/', '.', '_', '-']);
    let is_forbidden = |part: &&str| {
        let is_word = WORDS.iter().chain(&IDENTIFIER_PARTS).any(|(word, _)| word == part);
        (is_word && !(part.starts_with("plane") && path.contains("control"))) || FILE_NAMES.contains(part)
    };
    parts.filter(is_forbidden).map(|part| format!("{}: a file name with {part}", source.path)).collect()
}

fn house_words(source: &Source) -> Vec<String> {
    let mut violations = in_file_name(source);
    violations.extend(match source.path.rsplit('.').next() {
        Some("rs") => in_rust(source),
        Some("md") => in_document(source, None),
        _ => in_document(source, Some("# ")),
    });
    violations
}

/// The number of violations per crate or folder.
fn summary(violations: &[String]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for violation in violations {
        let path = violation.split(':').next().unwrap_or_default();
        let folder: Vec<&str> = path.split('/').take(if path.starts_with("docs") { 1 } else { 2 }).collect();
        *counts.entry(folder.join("/")).or_default() += 1;
    }
    let lines: Vec<String> = counts.iter().map(|(folder, count)| format!("{count:>6} {folder}")).collect();
    lines.join("\n")
}

#[test]
fn standard_terms_are_used() {
    let files = tree::files(&[".rs", ".md", ".toml", ".yaml", ".yml"]);
    let violations: Vec<String> = files.iter().flat_map(house_words).collect();
    assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), summary(&violations));
}

#[test]
fn a_house_word_is_found_in_each_place() {
    for (path, text) in [
        ("a.rs", "fn is_told() {}"),
        ("a.rs", "struct DevPlane;"),
        ("a.rs", "// Nobody is asked."),
        ("a.rs", "fn a() { log(\"the set is gone\") }"),
        ("a.rs", "/// What is written stays."),
        ("a.md", "A taken name is not retried."),
        ("a.md", "The plane starts."),
        ("a.yaml", "a: 1 # made by the generator"),
        ("crates/a/src/lanes.rs", ""),
        ("docs/whose.md", ""),
    ] {
        tree::assert_one(&house_words(&Source::new(path, text)), "");
    }
}

#[test]
fn code_questions_and_control_planes_are_fine() {
    for (path, text) in [
        (
            "a.rs",
            "//! A control plane. The control\n//! plane.\nstruct ControlPlane; // `told` is a field\nfn a(b: Homemade) {}",
        ),
        ("a.rs", "#[cfg(test)]\nmod tests { fn a() { assert_eq!(b, \"no such set: gone\") } }"),
        ("a.md", "# What changed\nWhat is the cost? What it costs. Use `kept`.\n```\nmade\n```\n"),
        ("a.toml", "told = \"who\""),
        ("crates/a/control_plane.rs", ""),
    ] {
        tree::assert_none(&house_words(&Source::new(path, text)));
    }
}
