//! Durations in the syntax of Kubernetes: `4h`, `1m30s`, `500ms`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The valid durations: one or more numbers, each with a unit. A CEL rule, because the error of a pattern has no message.
const RULE: &str = r"self.matches(r'^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$')";
/// The length limit; a longer text would only have more digits.
const MAX_LENGTH: u32 = 64;

/// A duration as text. The text may be invalid, so that one stored object with an invalid duration does not break the list and
/// watch of all objects; then [`GoDuration::value`] is `None`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(transparent)]
pub struct GoDuration(String);

impl GoDuration {
    /// The duration of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, or `None` if the text is not a duration. A value that overflows is `Duration::MAX`.
    pub fn value(&self) -> Option<Duration> {
        let mut rest = self.0.strip_prefix('+').unwrap_or(&self.0);
        if rest.is_empty() {
            return None;
        }
        let mut total = Duration::ZERO;
        while !rest.is_empty() {
            let (part, after) = part(rest)?;
            total = total.saturating_add(part);
            rest = after;
        }
        Some(total)
    }
}

/// The first number with its unit, and what follows it.
fn part(text: &str) -> Option<(Duration, &str)> {
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_ends);
    let unit_ends = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_ends);
    let seconds = number.parse::<f64>().ok()? * seconds_in(unit)?;
    Some((Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX), rest))
}

fn seconds_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": MAX_LENGTH,
            "x-kubernetes-validations": [{ "rule": RULE, "message": "is not a duration; valid examples: 4h, 15m, 1m30s" }],
        })
    }

    fn inline_schema() -> bool {
        true
    }
}
