//! What admission answers: everything that is wrong with an object, each with field, value and remedy, in the words that
//! Kubernetes has for fields; and what is legal and looks like a mistake.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use serde_json::Value;

use super::Rule;
use super::findings::identity_of;

/// So many errors and so many bytes are told; the rest is counted. A condition of whoever sent the object can carry it,
/// with room for words of their own.
pub(super) const MOST_ERRORS: usize = 100;
const LONGEST_MESSAGE: usize = 16 * 1024;
/// What an API server hands on of warnings: sixteen of 256 letters.
pub(super) const MOST_WARNINGS: usize = 15;
const LONGEST_WARNING: usize = 250;
/// Values and texts are told up to so many bytes, whatever somebody put into a field.
const LONGEST_VALUE: usize = 1000;
const LONGEST_TEXT: usize = 2000;

/// The answer about an object: refused if there is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What is wrong, the first hundred of it.
    pub errors: Vec<FieldError>,
    /// How many errors there are beyond those.
    pub more_errors: usize,
    /// What the user is told either way.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Whether the object may be stored.
    pub fn is_accepted(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors in one text, as Kubernetes joins them; `None` if there are none. What would make it longer than anybody
    /// can use is counted: `[first, second, and 7 more]`.
    pub fn message(&self) -> Option<String> {
        let (first, others) = self.errors.split_first()?;
        let mut text = first.to_string();
        if others.is_empty() && self.more_errors == 0 {
            return Some(text);
        }
        let mut left = others.len() + self.more_errors;
        for error in others {
            let error = error.to_string();
            if text.len() + error.len() > LONGEST_MESSAGE {
                break;
            }
            text += ", ";
            text += &error;
            left -= 1;
        }
        Some(if left == 0 { format!("[{text}]") } else { format!("[{text}, and {left} more]") })
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
    /// What stands there, as JSON; not told where nothing does, and cut where it is long.
    pub value: String,
    /// What to do. For [`Fault::NotSupported`] the supported values.
    pub message: String,
}

/// In which way a field is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(super) fn new(rule: Rule, path: &FieldPath, (kind, value): (Fault, &Value), message: &str) -> Self {
        let value = if kind.tells_value() { cut(value.to_string(), LONGEST_VALUE) } else { String::new() };
        Self { rule, path: path.clone(), kind, value, message: cut(message.to_owned(), LONGEST_TEXT) }
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

/// The text, or as much of it as there is room for.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('\u{2026}');
        text.shrink_to_fit();
    }
    text
}

/// A warning that an API server hands on whole.
pub(super) fn warning(text: String) -> String {
    cut(text, LONGEST_WARNING)
}

/// The path of a field, as Kubernetes writes it: `spec.template.cliques[0].spec.replicas`. Most are never told, so what is
/// told is put together only then.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Arc<Step>);

#[derive(Debug, PartialEq, Eq)]
struct Step {
    before: Option<FieldPath>,
    to: To,
}

#[derive(Debug, PartialEq, Eq)]
enum To {
    Field(Cow<'static, str>),
    /// The index of an item, and what stands for its name.
    Item(usize, u64),
}

impl FieldPath {
    /// A path from the root of the object.
    pub fn new(path: &'static str) -> Self {
        Self(Arc::new(Step { before: None, to: To::Field(Cow::Borrowed(path)) }))
    }

    /// A field within.
    pub fn field(&self, name: &'static str) -> Self {
        self.to(To::Field(Cow::Borrowed(name)))
    }

    /// A field whose name is the user's: a label, for instance.
    pub fn key(&self, name: &str) -> Self {
        self.to(To::Field(Cow::Owned(name.to_owned())))
    }

    /// An item of a list, and how it is told apart from the others.
    pub fn item(&self, index: usize, name: &str) -> Self {
        self.to(To::Item(index, identity_of(name)))
    }

    fn to(&self, to: To) -> Self {
        Self(Arc::new(Step { before: Some(self.clone()), to }))
    }

    /// What tells the field apart from all others of the object. It has the names of items in place of their indices, so
    /// that an item that moved is still itself.
    pub(super) fn identity(&self) -> u64 {
        let before = self.0.before.as_ref().map_or(0, Self::identity);
        match &self.0.to {
            To::Field(name) => identity_of((before, name)),
            To::Item(_, name) => identity_of((before, (), name)),
        }
    }

    /// Whether the field lies within the spec, and not in the metadata of the object.
    pub(super) fn is_within_spec(&self) -> bool {
        match (&self.0.before, &self.0.to) {
            (Some(before), _) => before.is_within_spec(),
            (None, To::Field(name)) => name.starts_with("spec"),
            (None, To::Item(..)) => false,
        }
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(before) = &self.0.before {
            before.fmt(f)?;
        }
        match &self.0.to {
            To::Field(name) if self.0.before.is_some() => write!(f, ".{name}"),
            To::Field(name) => f.write_str(name),
            To::Item(index, _) => write!(f, "[{index}]"),
        }
    }
}
