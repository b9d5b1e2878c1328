//! What admission answers: everything that is wrong with an object, each with field, value and remedy, in the words that
//! Kubernetes has for fields; and what is legal and looks like a mistake.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use super::Rule;

/// The answer about an object: refused if there is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Everything that is wrong.
    pub errors: Vec<FieldError>,
    /// What the user is told either way.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Whether the object may be stored.
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors in one text, as Kubernetes joins them; `None` if there are none.
    pub fn message(&self) -> Option<String> {
        match self.errors.as_slice() {
            [] => None,
            [error] => Some(error.to_string()),
            errors => {
                let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
                Some(format!("[{}]", texts.join(", ")))
            }
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The rule that says so.
    pub rule: Rule,
    /// The field.
    pub path: FieldPath,
    /// In which way it is wrong.
    pub kind: Fault,
    /// What stands there; not told where nothing does.
    pub value: Value,
    /// What to do. For [`Fault::NotSupported`] the supported values.
    pub message: String,
}

/// In which way a field is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is missing.
    Required,
    /// Its value is not one that it may have.
    Invalid,
    /// Another item has the same.
    Duplicate,
    /// What it names does not exist.
    NotFound,
    /// It is none of the values that there are.
    NotSupported,
    /// It may not be written here, or not be changed.
    Forbidden,
}

impl Fault {
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
        }
    }

    fn tells_value(self) -> bool {
        match self {
            Self::Required | Self::Forbidden => false,
            Self::Invalid | Self::Duplicate | Self::NotFound | Self::NotSupported => true,
        }
    }
}

impl FieldError {
    /// What makes it the same error about the same thing, wherever in its list the thing stands.
    pub(super) fn identity(&self) -> (String, String) {
        (self.path.identity.clone(), format!("{}{}{}", self.kind.words(), self.value, self.message))
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind.words())?;
        if self.kind.tells_value() {
            write!(f, ": {}", self.value)?;
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// The path of a field, as Kubernetes writes it: `spec.template.cliques[0].spec.replicas`.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    shown: String,
    /// The same with the names of items in place of their indices, so that an item that moved is still itself.
    identity: String,
}

impl FieldPath {
    /// A path from the root of the object.
    pub fn new(path: &str) -> Self {
        Self { shown: path.to_owned(), identity: path.to_owned() }
    }

    /// A field within.
    pub fn field(&self, name: &str) -> Self {
        Self { shown: [&self.shown, ".", name].concat(), identity: [&self.identity, ".", name].concat() }
    }

    /// An item of a list, and how it is told apart from the others.
    pub fn item(&self, index: usize, name: &str) -> Self {
        Self { shown: format!("{}[{index}]", self.shown), identity: format!("{}[{name}]", self.identity) }
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Verdict);

impl Findings {
    fn add(&mut self, rule: Rule, path: &FieldPath, (kind, value): (Fault, Value), message: impl Into<String>) {
        self.0.errors.push(FieldError { rule, path: path.clone(), kind, value, message: message.into() });
    }

    pub(super) fn required(&mut self, rule: Rule, path: &FieldPath, message: impl Into<String>) {
        self.add(rule, path, (Fault::Required, Value::Null), message);
    }

    pub(super) fn forbidden(&mut self, rule: Rule, path: &FieldPath, message: impl Into<String>) {
        self.add(rule, path, (Fault::Forbidden, Value::Null), message);
    }

    pub(super) fn invalid(
        &mut self,
        rule: Rule,
        path: &FieldPath,
        value: impl Into<Value>,
        message: impl Into<String>,
    ) {
        self.add(rule, path, (Fault::Invalid, value.into()), message);
    }

    pub(super) fn duplicate(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (Fault::Duplicate, value.into()), "");
    }

    pub(super) fn not_found(&mut self, rule: Rule, path: &FieldPath, value: impl Into<Value>) {
        self.add(rule, path, (Fault::NotFound, value.into()), "");
    }

    pub(super) fn warn(&mut self, path: &FieldPath, text: impl Display) {
        self.0.warnings.push(format!("{path}: {text}"));
    }

    pub(super) fn tell(&mut self, warning: String) {
        self.0.warnings.push(warning);
    }
}
