//! Collects the errors and warnings of one validation, with ratcheting: an update is not denied for an error that the stored
//! object already has.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

use super::field_path::fingerprint;
use super::validation_result::{MAX_ERRORS, MAX_WARNINGS, ValidationResult, Violation, warning};
use super::{FieldPath, Rule};
use crate::field_error::ErrorType;

/// Collects errors and warnings. Its memory is bounded by the size of the object, even if every field is invalid.
#[derive(Debug, Default)]
pub(super) struct ErrorCollector {
    result: ValidationResult,
    /// The errors of the stored object, by fingerprint, and the number of each.
    stored_errors: BTreeMap<u64, usize>,
    /// The amounts by which the stored object exceeds limits, by the fingerprint of the limit.
    stored_amounts: BTreeMap<u64, u64>,
    /// Whether the collector records the errors of the stored object.
    is_stored: bool,
    omitted_warnings: usize,
}

/// An amount that exceeds a limit.
pub(super) struct ExceededLimit {
    /// The fingerprint of the limit.
    pub(super) limit: u64,
    /// The amount.
    pub(super) amount: u64,
}

impl ExceededLimit {
    /// The length of a generated name that contains `name` of `path`.
    pub(super) fn of_length(path: &FieldPath, name: &str, length: usize) -> Self {
        let limit = fingerprint((path.fingerprint(), name));
        Self { limit, amount: u64::try_from(length).unwrap_or(u64::MAX) }
    }
}

impl ErrorCollector {
    /// Records the errors of the stored object. [`ErrorCollector::for_update`] then ignores them.
    pub(super) fn for_stored() -> Self {
        Self { is_stored: true, ..Self::default() }
    }

    /// Collects the errors of the updated object, except those that the stored object has. An error of the stored object
    /// excuses one equal error.
    pub(super) fn for_update(self) -> Self {
        Self { stored_errors: self.stored_errors, stored_amounts: self.stored_amounts, ..Self::default() }
    }

    pub(super) fn finish(self) -> ValidationResult {
        let mut result = self.result;
        if self.omitted_warnings > 0 {
            result.warnings.push(format!("and {} more warnings", self.omitted_warnings));
        }
        result
    }

    /// Whether the checked object is the stored one, so that its errors are collected and not reported.
    pub(super) fn is_stored(&self) -> bool {
        self.is_stored
    }

    fn add(&mut self, rule: Rule, path: &FieldPath, (error_type, value): (ErrorType, &Value), detail: &str) {
        let error = fingerprint((path.fingerprint(), error_type, value, detail));
        if self.is_stored {
            *self.stored_errors.entry(error).or_default() += 1;
            return;
        }
        if let Some(count) = self.stored_errors.get_mut(&error).filter(|count| **count > 0) {
            *count -= 1;
        } else {
            self.push(rule, path, (error_type, value), detail);
        }
    }

    fn push(&mut self, rule: Rule, path: &FieldPath, (error_type, value): (ErrorType, &Value), detail: &str) {
        if self.result.violations.len() < MAX_ERRORS {
            self.result.violations.push(Violation::new(rule, path, (error_type, value), detail));
        } else {
            self.result.omitted_violations += 1;
        }
    }

    /// Adds an error for an exceeded limit. If the stored object exceeds the limit too, the update may keep or lower the
    /// amount, even if the text of the error changes.
    pub(super) fn exceeds(
        &mut self,
        (rule, path): (Rule, &FieldPath),
        value: impl Into<Value>,
        ExceededLimit { limit, amount }: ExceededLimit,
        detail: impl AsRef<str>,
    ) {
        if self.is_stored {
            self.stored_amounts.insert(limit, amount);
        } else if self.stored_amounts.get(&limit).is_none_or(|stored| amount > *stored) {
            self.push(rule, path, (ErrorType::Invalid, &value.into()), detail.as_ref());
        }
    }

    pub(super) fn required(&mut self, rule: Rule, path: &FieldPath, detail: impl AsRef<str>) {
        self.add(rule, path, (ErrorType::Required, &Value::Null), detail.as_ref());
    }

    pub(super) fn forbidden(&mut self, rule: Rule, path: &FieldPath, detail: impl AsRef<str>) {
        self.add(rule, path, (ErrorType::Forbidden, &Value::Null), detail.as_ref());
    }

    pub(super) fn invalid(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>, detail: impl AsRef<str>) {
        self.add(rule, path, (ErrorType::Invalid, &value.into()), detail.as_ref());
    }

    pub(super) fn duplicate(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (ErrorType::Duplicate, &value.into()), "");
    }

    pub(super) fn not_found(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (ErrorType::NotFound, &value.into()), "");
    }

    /// `supported` lists the supported values.
    pub(super) fn not_supported(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>, supported: &str) {
        self.add(rule, path, (ErrorType::NotSupported, &value.into()), supported);
    }

    /// Adds a warning about a field.
    pub(super) fn warn(&mut self, path: &FieldPath, text: impl Display) {
        self.warn_general(format_args!("{path}: {text}"));
    }

    /// Adds a warning that names its fields itself.
    pub(super) fn warn_general(&mut self, text: impl Display) {
        if self.is_stored {
            return;
        }
        if self.result.warnings.len() < MAX_WARNINGS {
            self.result.warnings.push(warning(text.to_string()));
        } else {
            self.omitted_warnings += 1;
        }
    }
}
