//! The text of lists, and of messages of others, in messages.

/// Lists at most `max` names, and the number of the others: `a, b and 3 more`.
pub fn join_names(names: &[impl AsRef<str>], max: usize) -> String {
    let (first, rest) = names.split_at(names.len().min(max));
    let first = first.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if rest.is_empty() { first } else { format!("{first} and {} more", rest.len()) }
}

/// The first `max` characters of a message of another service.
pub fn shortened(message: &str, max: usize) -> String {
    let mut short: String = message.chars().take(max).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_ends_with_dots() {
        assert_eq!([shortened("äbc", 3), shortened("äbcd", 3)], ["äbc", "äbc…"]);
    }

    #[test]
    fn names_above_the_limit_are_counted() {
        for (count, expected) in [(0, ""), (1, "a"), (2, "a, b"), (3, "a, b and 1 more"), (4, "a, b and 2 more")] {
            assert_eq!(join_names(&["a", "b", "c", "d"][..count], 2), expected);
        }
    }
}
