//! Warnings about unknown keys of a document, with the known key that is most similar.

use std::collections::BTreeSet;

use serde_json::Value;

use super::join;

/// One warning for each key of `content` that is not a known key.
pub(super) fn keys(content: &Value, known: &BTreeSet<String>) -> Vec<String> {
    let mut warnings = vec![];
    collect(content, &Position::default(), known, &mut warnings);
    warnings
}

/// The position of a value.
#[derive(Default)]
struct Position {
    /// With indices: `scheduler.profiles[1]`.
    path: String,
    /// Without indices, as in known keys: `scheduler.profiles[]`.
    pattern: String,
}

fn collect(content: &Value, position: &Position, known: &BTreeSet<String>, warnings: &mut Vec<String>) {
    match content {
        Value::Object(fields) => {
            for (key, value) in fields {
                let below = Position { path: join(&position.path, key), pattern: join(&position.pattern, key) };
                if is_known(&below.pattern, known) {
                    collect(value, &below, known, warnings);
                } else {
                    warnings.push(format!("{}: unknown key, ignored{}", below.path, hint(key, position, known)));
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let Position { path, pattern } = position;
                let below = Position { path: format!("{path}[{at}]"), pattern: format!("{pattern}[]") };
                collect(item, &below, known, warnings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_known(pattern: &str, known: &BTreeSet<String>) -> bool {
    let within = |any: &str| pattern == any || pattern.strip_prefix(any).is_some_and(|rest| rest.starts_with('.'));
    known.contains(pattern) || known.iter().filter_map(|key| key.strip_suffix(".*")).any(within)
}

/// The known sibling key that is most similar to `key`.
fn hint(key: &str, position: &Position, known: &BTreeSet<String>) -> String {
    let start = join(&position.pattern, "");
    let siblings = known.iter().filter_map(|known| known.strip_prefix(&start));
    let siblings = siblings.filter_map(|rest| rest.split(['.', '[']).next());
    let near = siblings.map(|sibling| (distance(key, sibling), sibling)).min();
    near.filter(|(distance, sibling)| *distance <= sibling.len() / 3)
        .map(|(_, sibling)| format!("; did you mean {sibling}?"))
        .unwrap_or_default()
}

/// The Levenshtein distance, independent of upper and lower case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
