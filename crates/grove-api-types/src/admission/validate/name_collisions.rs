//! Finds generated names that can become equal, although they contain indices that are not known yet.

use std::collections::BTreeMap;

/// A part of a name, between hyphens.
#[derive(Clone, Copy)]
pub(super) enum NamePart<'a> {
    /// A known text; it may contain hyphens.
    Text(&'a str),
    /// Any index.
    Index,
}

/// A name during the comparison.
struct Name<'n, 'a, T> {
    /// Its position in the list of names.
    position: usize,
    /// The owner of the name.
    owner: &'n T,
    /// Its numbers in order; `None` for an index.
    numbers: Vec<Option<&'a str>>,
}

/// Names that differ only in numbers, grouped by the positions of their indices.
type SameShape<'n, 'a, T> = BTreeMap<Vec<usize>, Vec<Name<'n, 'a, T>>>;

/// Each name that can become equal to an earlier name, with the first such name; in the order of the names. An index is a whole
/// word between hyphens. So names that can become equal have the same number of words, and the same words where no number is.
pub(super) fn collisions<'n, T>(names: &'n [(Vec<NamePart<'_>>, T)]) -> Vec<(&'n T, &'n T)> {
    let mut by_shape: BTreeMap<Vec<Option<&str>>, SameShape<'n, '_, T>> = BTreeMap::new();
    for (position, (parts, owner)) in names.iter().enumerate() {
        let words: Vec<Option<&str>> = parts.iter().flat_map(words).collect();
        let shape = words.iter().map(|word| word.filter(|word| !is_index(word))).collect();
        let numbers: Vec<_> = words.into_iter().filter(|word| word.is_none_or(is_index)).collect();
        let indices = numbers.iter().enumerate().filter(|(_, number)| number.is_none()).map(|(at, _)| at).collect();
        by_shape.entry(shape).or_default().entry(indices).or_default().push(Name { position, owner, numbers });
    }
    let mut collisions = BTreeMap::new();
    for same_shape in by_shape.values() {
        for (indices, names) in same_shape {
            for (other_indices, others) in same_shape {
                compare((indices, names), (other_indices, others), &mut collisions);
            }
        }
    }
    collisions.into_values().map(|(name, first)| (name.owner, first.owner)).collect()
}

/// The words of a part; `None` for an index.
fn words<'a>(part: &NamePart<'a>) -> impl Iterator<Item = Option<&'a str>> {
    let (text, index) = match *part {
        NamePart::Text(text) => (Some(text), None),
        NamePart::Index => (None, Some(None)),
    };
    text.into_iter().flat_map(|text| text.split('-').map(Some)).chain(index)
}

/// Whether the word can be an index.
fn is_index(word: &str) -> bool {
    let is_canonical = word == "0" || !word.starts_with(['0', '+', '-']);
    is_canonical && word.parse::<i32>().is_ok()
}

/// Finds the `names` that can become equal to an earlier one of the `others`.
fn compare<'m, 'n, 'a, T>(
    (indices, names): (&[usize], &'m [Name<'n, 'a, T>]),
    (other_indices, others): (&[usize], &'m [Name<'n, 'a, T>]),
    collisions: &mut BTreeMap<usize, (&'m Name<'n, 'a, T>, &'m Name<'n, 'a, T>)>,
) {
    // An index of one name can become equal to any number of the other.
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
        let Some(other) = first.get(&known(name)).filter(|other| other.position < name.position) else { continue };
        let (_, before) = collisions.entry(name.position).or_insert((name, other));
        if other.position < before.position {
            *before = other;
        }
    }
}
