//! Counts of objects in a status.

/// The count as a field of the API; a count beyond the range of the field is its maximum.
pub fn as_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_the_range_is_the_maximum() {
        assert_eq!([0, 7, usize::MAX].map(as_count), [0, 7, i32::MAX]);
    }
}
