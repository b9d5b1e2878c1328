//! An answer that is being put together: what is new of what is wrong, and no more of it than anybody reads.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::verdict::{MOST_ERRORS, MOST_WARNINGS, warning};
use super::{Fault, FieldError, FieldPath, Rule, Verdict};

/// Errors and warnings as they are found. Memory is bounded by the size of the object, however much is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Findings {
    verdict: Verdict,
    /// What was wrong with the object that is stored, and how often.
    stored: BTreeMap<u64, usize>,
    /// What it has too much of, and how much.
    excess: BTreeMap<u64, u64>,
    /// Whether it is the stored object that is looked at.
    is_stored: bool,
    more_warnings: usize,
}

/// Too much of something.
pub(super) struct Excess {
    /// Stands for what there is too much of.
    pub(super) of: u64,
    /// How much there is.
    pub(super) much: u64,
}

impl Excess {
    /// The length of a name that `name` at `path` becomes part of.
    pub(super) fn of_length(path: &FieldPath, name: &str, length: usize) -> Self {
        Self { of: identity_of((path.identity(), name)), much: u64::try_from(length).unwrap_or(u64::MAX) }
    }
}

/// What tells two things apart, in the place of the things.
pub(super) fn identity_of(it: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    it.hash(&mut hasher);
    hasher.finish()
}

impl Findings {
    /// Takes in what is wrong with the object that is stored. [`Findings::of_change`] makes it known.
    pub(super) fn of_stored() -> Self {
        Self { is_stored: true, ..Self::default() }
    }

    /// Goes on with what the object is changed to: what was wrong before is no reason to refuse the change, each such
    /// error counted once.
    pub(super) fn of_change(self) -> Self {
        Self { stored: self.stored, excess: self.excess, ..Self::default() }
    }

    /// The answer.
    pub(super) fn verdict(self) -> Verdict {
        let mut verdict = self.verdict;
        if self.more_warnings > 0 {
            verdict.warnings.push(format!("and {} more warnings", self.more_warnings));
        }
        verdict
    }

    fn add(&mut self, rule: Rule, path: &FieldPath, (kind, value): (Fault, &Value), message: &str) {
        let identity = identity_of((path.identity(), kind, value, message));
        if self.is_stored {
            *self.stored.entry(identity).or_default() += 1;
            return;
        }
        if let Some(count) = self.stored.get_mut(&identity).filter(|count| **count > 0) {
            *count -= 1;
        } else {
            self.refuse(FieldError::new(rule, path, (kind, value), message));
        }
    }

    fn refuse(&mut self, error: FieldError) {
        if self.verdict.errors.len() < MOST_ERRORS {
            self.verdict.errors.push(error);
        } else {
            self.verdict.more_errors += 1;
        }
    }

    /// Takes in that there is more of something than may be. Of what is stored there may be as much again, or less, in
    /// whatever words.
    pub(super) fn exceeds(
        &mut self,
        (rule, path): (Rule, &FieldPath),
        value: impl Into<Value>,
        Excess { of, much }: Excess,
        message: impl AsRef<str>,
    ) {
        if self.is_stored {
            self.excess.insert(of, much);
        } else if self.excess.get(&of).is_none_or(|stored| much > *stored) {
            self.refuse(FieldError::new(rule, path, (Fault::Invalid, &value.into()), message.as_ref()));
        }
    }

    pub(super) fn required(&mut self, rule: Rule, path: &FieldPath, message: impl AsRef<str>) {
        self.add(rule, path, (Fault::Required, &Value::Null), message.as_ref());
    }

    pub(super) fn forbidden(&mut self, rule: Rule, path: &FieldPath, message: impl AsRef<str>) {
        self.add(rule, path, (Fault::Forbidden, &Value::Null), message.as_ref());
    }

    pub(super) fn invalid(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>, message: impl AsRef<str>) {
        self.add(rule, path, (Fault::Invalid, &value.into()), message.as_ref());
    }

    pub(super) fn duplicate(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (Fault::Duplicate, &value.into()), "");
    }

    pub(super) fn not_found(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (Fault::NotFound, &value.into()), "");
    }

    /// A value that is none of those that there are.
    pub(super) fn not_supported(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>, supported: &str) {
        self.add(rule, path, (Fault::NotSupported, &value.into()), supported);
    }

    pub(super) fn warn(&mut self, path: &FieldPath, text: impl Display) {
        self.tell(format_args!("{path}: {text}"));
    }

    pub(super) fn tell(&mut self, text: impl Display) {
        if self.is_stored {
            return;
        }
        if self.verdict.warnings.len() < MOST_WARNINGS {
            self.verdict.warnings.push(warning(text.to_string()));
        } else {
            self.more_warnings += 1;
        }
    }
}
