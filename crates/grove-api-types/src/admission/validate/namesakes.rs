//! Names with numbers that are not known yet, such as the index of a replica, and which of them can become the same.

use std::collections::BTreeMap;

/// What a name consists of, between hyphens.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// What is known; it may contain hyphens, too.
    Text(&'a str),
    /// An index that may be any.
    Index,
}

/// One of the names, while it is compared.
struct Name<'n, 'a, T> {
    /// Its place among the names.
    at: usize,
    /// What it is the name of.
    of: &'n T,
    /// Its numbers in their order; those of indices are not known.
    numbers: Vec<Option<&'a str>>,
}

/// Names that differ in nothing but numbers, by which of their numbers are indices.
type Alike<'n, 'a, T> = BTreeMap<Vec<usize>, Vec<Name<'n, 'a, T>>>;

/// Of names that can become the same each but the first, together with the first that it can become; in the order of the
/// names. An index is a word of its own between hyphens. So names that can meet have as many words as one another, and
/// every word that is no number in common.
pub(super) fn namesakes<'n, T>(names: &'n [(Vec<Part<'_>>, T)]) -> Vec<(&'n T, &'n T)> {
    let mut by_shape: BTreeMap<Vec<Option<&str>>, Alike<'n, '_, T>> = BTreeMap::new();
    for (at, (parts, of)) in names.iter().enumerate() {
        let words: Vec<Option<&str>> = parts.iter().flat_map(words).collect();
        let shape = words.iter().map(|word| word.filter(|word| !is_index(word))).collect();
        let numbers: Vec<_> = words.into_iter().filter(|word| word.is_none_or(is_index)).collect();
        let indices = numbers.iter().enumerate().filter(|(_, number)| number.is_none()).map(|(at, _)| at).collect();
        by_shape.entry(shape).or_default().entry(indices).or_default().push(Name { at, of, numbers });
    }
    let mut met = BTreeMap::new();
    for alike in by_shape.values() {
        for (indices, names) in alike {
            for (other_indices, others) in alike {
                meet((indices, names), (other_indices, others), &mut met);
            }
        }
    }
    met.into_values().map(|(name, first)| (name.of, first.of)).collect()
}

/// The words of a part; an index is one that is not known.
fn words<'a>(part: &Part<'a>) -> impl Iterator<Item = Option<&'a str>> {
    let (text, index) = match *part {
        Part::Text(text) => (Some(text), None),
        Part::Index => (None, Some(None)),
    };
    text.into_iter().flat_map(|text| text.split('-').map(Some)).chain(index)
}

/// Whether the word is one that an index may have.
fn is_index(word: &str) -> bool {
    let is_written_so = word == "0" || !word.starts_with(['0', '+', '-']);
    is_written_so && word.parse::<i32>().is_ok()
}

/// Finds of the names those that can become one of the others that comes before.
fn meet<'m, 'n, 'a, T>(
    (indices, names): (&[usize], &'m [Name<'n, 'a, T>]),
    (other_indices, others): (&[usize], &'m [Name<'n, 'a, T>]),
    met: &mut BTreeMap<usize, (&'m Name<'n, 'a, T>, &'m Name<'n, 'a, T>)>,
) {
    // Where either has an index they agree, whatever the other one has there.
    let known = |name: &Name<'n, 'a, T>| -> Vec<Option<&'a str>> {
        let numbers = name.numbers.iter().enumerate();
        let known = numbers.filter(|(at, _)| !indices.contains(at) && !other_indices.contains(at));
        known.map(|(_, number)| *number).collect()
    };
    let mut first = BTreeMap::new();
    for other in others {
        first.entry(known(other)).or_insert(other);
    }
    for name in names {
        let Some(other) = first.get(&known(name)).filter(|other| other.at < name.at) else { continue };
        let (_, before) = met.entry(name.at).or_insert((name, other));
        if other.at < before.at {
            *before = other;
        }
    }
}
