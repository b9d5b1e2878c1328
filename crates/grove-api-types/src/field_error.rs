//! An error about one field of an object or of the configuration file. Types and texts are those of `field.Error` in
//! apimachinery.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

/// An error about one field: the field, its value, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The type of the error.
    pub error_type: ErrorType,
    /// The path of the field, for example `spec.template.cliques[0].spec.replicas`.
    pub field: String,
    /// The value as JSON. Empty for the types that do not show the value.
    pub value: String,
    /// The remedy, for [`ErrorType::NotSupported`] the supported values. May be empty.
    pub detail: String,
}

/// The type of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The field is required and has no value.
    Required,
    /// The value is not valid.
    Invalid,
    /// Another item has the same value, which must be unique.
    Duplicate,
    /// The object or the item that the value names does not exist.
    NotFound,
    /// The value is not in the set of supported values.
    NotSupported,
    /// The field must not be set, or must not change.
    Forbidden,
}

impl ErrorType {
    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
        }
    }

    fn shows_value(self) -> bool {
        match self {
            Self::Required | Self::Forbidden => false,
            Self::Invalid | Self::Duplicate | Self::NotFound | Self::NotSupported => true,
        }
    }
}

impl FieldError {
    pub(crate) fn new(error_type: ErrorType, field: String, value: &Value, detail: impl Into<String>) -> Self {
        let value = if error_type.shows_value() { value.to_string() } else { String::new() };
        Self { error_type, field, value, detail: detail.into() }
    }

    pub(crate) fn invalid(field: String, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, value, detail)
    }

    pub(crate) fn not_supported(field: String, value: &Value, supported: &[&str]) -> Self {
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(ErrorType::NotSupported, field, value, detail)
    }

    pub(crate) fn duplicate(field: String, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Duplicate, field, value, detail)
    }

    pub(crate) fn required(field: String, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, field, &Value::Null, detail)
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { error_type, field, value, detail } = self;
        write!(f, "{field}: {}", error_type.text())?;
        if error_type.shows_value() {
            write!(f, ": {value}")?;
        }
        if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
    }
}
