//! The result of validation: the rules that an object violates, and warnings.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use super::{FieldPath, Rule};
use crate::field_error::{ErrorType, FieldError};

/// A result contains at most this many violations and this many bytes of message, so that a client can store the message in
/// a condition. The result counts the others.
pub(super) const MAX_ERRORS: usize = 100;
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// An API server forwards at most 16 warnings of 256 characters; the last one counts the omitted warnings.
pub(super) const MAX_WARNINGS: usize = 15;
const MAX_WARNING_BYTES: usize = 250;
/// Longer values and details are truncated.
const MAX_VALUE_BYTES: usize = 1000;
const MAX_DETAIL_BYTES: usize = 2000;

/// The result of validation. An object with a violation is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationResult {
    /// The violations, at most 100.
    pub violations: Vec<Violation>,
    /// The number of further violations.
    pub omitted_violations: usize,
    /// Warnings for the user, whether or not the object is denied.
    pub warnings: Vec<String>,
}

impl ValidationResult {
    /// Whether the object is valid.
    pub fn is_accepted(&self) -> bool {
        self.violations.is_empty()
    }

    /// All errors in one text, joined as Kubernetes joins them; `None` if there are none. If the text became too long, it
    /// ends with the number of the omitted errors: `[first, second, and 7 more]`.
    pub fn message(&self) -> Option<String> {
        let (first, others) = self.violations.split_first()?;
        let mut text = first.to_string();
        if others.is_empty() && self.omitted_violations == 0 {
            return Some(text);
        }
        let mut omitted = others.len() + self.omitted_violations;
        for violation in others {
            let error = violation.to_string();
            if text.len() + error.len() > MAX_MESSAGE_BYTES {
                break;
            }
            text += ", ";
            text += &error;
            omitted -= 1;
        }
        Some(if omitted == 0 { format!("[{text}]") } else { format!("[{text}, and {omitted} more]") })
    }
}

/// A rule that the object violates, and the error about the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The error; its value and its detail are truncated.
    pub error: FieldError,
}

impl Violation {
    pub(super) fn new(rule: Rule, path: &FieldPath, (error_type, value): (ErrorType, &Value), detail: &str) -> Self {
        let mut error =
            FieldError::new(error_type, path.to_string(), value, truncated(detail.to_owned(), MAX_DETAIL_BYTES));
        error.value = truncated(error.value, MAX_VALUE_BYTES);
        Self { rule, error }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// The text, with an ellipsis in place of all after `max` bytes.
fn truncated(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('\u{2026}');
        text.shrink_to_fit();
    }
    text
}

/// A warning that is short enough for an API server to forward it.
pub(super) fn warning(text: String) -> String {
    truncated(text, MAX_WARNING_BYTES)
}
