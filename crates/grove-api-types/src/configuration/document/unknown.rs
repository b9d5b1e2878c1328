//! Keys of a document that nobody asked for, with the key that was probably meant.

use std::collections::BTreeSet;

use serde_json::Value;

use super::join;

/// One warning per key of `content` that is not among the `known` ones.
pub(super) fn keys(content: &Value, known: &BTreeSet<String>) -> Vec<String> {
    let mut warnings = vec![];
    collect(content, &Place::default(), known, &mut warnings);
    warnings
}

/// Where a value stands, as users write it and as known keys are listed.
#[derive(Default)]
struct Place {
    path: String,
    pattern: String,
}

fn collect(content: &Value, place: &Place, known: &BTreeSet<String>, warnings: &mut Vec<String>) {
    match content {
        Value::Object(fields) => {
            for (key, value) in fields {
                let below = Place { path: join(&place.path, key), pattern: join(&place.pattern, key) };
                if is_known(&below.pattern, known) {
                    collect(value, &below, known, warnings);
                } else {
                    warnings.push(format!("{}: unknown key, nothing reads it{}", below.path, hint(key, place, known)));
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let Place { path, pattern } = place;
                let below = Place { path: format!("{path}[{at}]"), pattern: format!("{pattern}[]") };
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

/// The sibling that `key` is most likely a misspelling of.
fn hint(key: &str, place: &Place, known: &BTreeSet<String>) -> String {
    let start = join(&place.pattern, "");
    let siblings = known.iter().filter_map(|known| known.strip_prefix(&start));
    let siblings = siblings.filter_map(|rest| rest.split(['.', '[']).next());
    let near = siblings.map(|sibling| (distance(key, sibling), sibling)).min();
    near.filter(|(distance, sibling)| *distance <= sibling.len() / 3)
        .map(|(_, sibling)| format!("; {sibling} was probably meant"))
        .unwrap_or_default()
}

/// How many letters have to be put in, taken out or changed, upper and lower case being the same.
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
