//! The text of lists in messages.

/// Lists at most `max` names, and the number of the others: `a, b and 3 more`.
pub fn join_names(names: &[impl AsRef<str>], max: usize) -> String {
    let (first, rest) = names.split_at(names.len().min(max));
    let first = first.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if rest.is_empty() { first } else { format!("{first} and {} more", rest.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_above_the_limit_are_counted() {
        for (count, expected) in [(0, ""), (1, "a"), (2, "a, b"), (3, "a, b and 1 more"), (4, "a, b and 2 more")] {
            assert_eq!(join_names(&["a", "b", "c", "d"][..count], 2), expected);
        }
    }
}
