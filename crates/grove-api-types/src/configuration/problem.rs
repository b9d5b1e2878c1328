//! What is wrong with a value, in the words that Kubernetes uses for fields of its own objects.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

/// One thing that is wrong: the field, its value, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The field's path, for example `scheduler.profiles[1].name`.
    pub field: String,
    fault: Fault,
    remedy: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Fault {
    Invalid(Value),
    Unsupported(Value),
    Duplicate(Value),
    Required,
}

impl Problem {
    pub(super) fn invalid(field: String, value: Value, remedy: impl Into<String>) -> Self {
        Self { field, fault: Fault::Invalid(value), remedy: remedy.into() }
    }

    pub(super) fn unsupported(field: String, value: Value, supported: &[&str]) -> Self {
        Self { field, fault: Fault::Unsupported(value), remedy: format!("supported values: {}", supported.join(", ")) }
    }

    pub(super) fn duplicate(field: String, value: Value, remedy: impl Into<String>) -> Self {
        Self { field, fault: Fault::Duplicate(value), remedy: remedy.into() }
    }

    pub(super) fn required(field: String, remedy: impl Into<String>) -> Self {
        Self { field, fault: Fault::Required, remedy: remedy.into() }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { field, fault, remedy } = self;
        match fault {
            Fault::Invalid(value) => write!(f, "{field}: Invalid value: {value}: {remedy}"),
            Fault::Unsupported(value) => write!(f, "{field}: Unsupported value: {value}: {remedy}"),
            Fault::Duplicate(value) => write!(f, "{field}: Duplicate value: {value}: {remedy}"),
            Fault::Required => write!(f, "{field}: Required value: {remedy}"),
        }
    }
}
