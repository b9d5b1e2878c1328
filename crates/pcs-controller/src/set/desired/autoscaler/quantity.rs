//! Quantities of Kubernetes as numbers, because the API server stores them in a canonical form: `1000m` becomes `1`.

/// The factor of each suffix, in billionths.
const SUFFIXES: [(&str, i128); 15] = [
    ("Ki", 1_000_000_000 << 10),
    ("Mi", 1_000_000_000 << 20),
    ("Gi", 1_000_000_000 << 30),
    ("Ti", 1_000_000_000 << 40),
    ("Pi", 1_000_000_000 << 50),
    ("Ei", 1_000_000_000 << 60),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000_000_000_000),
    ("M", 1_000_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("T", 1_000_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000_000_000),
];

/// The quantity in billionths, the highest precision of Kubernetes; `None` if the text is no quantity.
pub(crate) fn to_nano(quantity: &str) -> Option<i128> {
    let (number, unit) = split(quantity.trim())?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scaled = digits.parse::<i128>().ok()?.checked_mul(unit)?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    // Kubernetes rounds smaller fractions away from zero.
    Some(sign * (scaled / divisor + i128::from(scaled % divisor != 0)))
}

/// The number, and the factor of its suffix or exponent in billionths.
fn split(quantity: &str) -> Option<(&str, i128)> {
    if let Some((number, unit)) =
        SUFFIXES.iter().find_map(|(suffix, unit)| Some((quantity.strip_suffix(suffix)?, *unit)))
    {
        return Some((number, unit));
    }
    match quantity.split_once(['e', 'E']) {
        Some((number, exponent)) => {
            let exponent = exponent.parse::<i32>().ok()?.checked_add(9)?;
            Some((number, 10_i128.checked_pow(u32::try_from(exponent).ok()?)?))
        }
        None => Some((quantity, 1_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::to_nano;

    #[test]
    fn equal_quantities_with_different_suffixes_are_equal() {
        let same =
            [("1000m", "1"), ("1Gi", "1024Mi"), ("1.5", "1500m"), ("2e3", "2k"), ("0.5Ki", "512"), ("-1", "-1000m")];
        for (one, other) in same {
            assert_eq!(to_nano(one), to_nano(other), "{one} {other}");
            assert!(to_nano(one).is_some(), "{one}");
        }
    }

    #[test]
    fn different_quantities_differ_and_other_texts_are_none() {
        assert_ne!(to_nano("1Gi"), to_nano("1G"));
        assert_ne!(to_nano("1E"), to_nano("1Ei"));
        for text in ["", "m", "1x", "1.2.3", "Ki", "--1", "1e", "1e99"] {
            assert_eq!(to_nano(text), None, "{text:?}");
        }
    }
}
