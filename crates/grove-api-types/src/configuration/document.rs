//! Reads a document key by key. Each key that the reader requests is a known key; errors are collected, so that one run reports
//! all of them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

mod unknown;

use crate::duration::GoDuration;
use crate::field_error::FieldError;

/// The longest valid duration: a year, so that a deadline never overflows.
const MAX_DURATION: Duration = Duration::from_hours(365 * 24);

/// A document, and the results of reading it.
pub(super) struct Document<'a> {
    content: &'a Value,
    results: RefCell<ReadResults>,
}

/// The errors, warnings and keys of a document that is read.
#[derive(Default)]
struct ReadResults {
    errors: Vec<FieldError>,
    warnings: Vec<String>,
    /// The requested keys; `[]` is an item of a list.
    keys: BTreeSet<String>,
}

/// A mapping within the document, present or not.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// The path with indices: `scheduler.profiles[1]`.
    path: String,
    /// The path without indices: `scheduler.profiles[]`.
    pattern: String,
    content: Option<&'a Value>,
}

impl<'a> Document<'a> {
    pub(super) fn new(content: &'a Value) -> Self {
        Self { content, results: RefCell::default() }
    }

    pub(super) fn root(&'a self) -> Section<'a> {
        let section = Section { document: self, path: String::new(), pattern: String::new(), content: None };
        Section { content: section.mapping(Some(self.content), "the file"), ..section }
    }

    /// The warnings, or all errors.
    pub(super) fn finish(&self) -> Result<Vec<String>, Vec<FieldError>> {
        let ReadResults { errors, mut warnings, keys } = self.results.take();
        if !errors.is_empty() {
            return Err(errors);
        }
        let unknown = unknown::keys(self.content, &keys);
        warnings.extend(unknown);
        Ok(warnings)
    }

    /// All requested keys.
    pub(super) fn keys(&self) -> Vec<String> {
        self.results.take().keys.into_iter().collect()
    }
}

impl<'a> Section<'a> {
    /// The mapping below `key`.
    pub(super) fn section(&self, key: &str) -> Section<'a> {
        let (path, pattern) = (join(&self.path, key), join(&self.pattern, key));
        let content = self.mapping(self.raw(key), &path);
        Section { document: self.document, path, pattern, content }
    }

    /// The list of mappings below `key`, each converted by `read`.
    pub(super) fn items<T>(&self, key: &str, read: impl Fn(&Section<'a>) -> T) -> Vec<T> {
        let (path, pattern) = (join(&self.path, key), join(&self.pattern, key) + "[]");
        let item = |path: String, value| {
            let content = self.mapping(value, &path);
            read(&Section { document: self.document, path, pattern: pattern.clone(), content })
        };
        match self.raw(key) {
            Some(Value::Array(values)) => {
                values.iter().enumerate().map(|(at, value)| item(format!("{path}[{at}]"), Some(value))).collect()
            }
            Some(other) => {
                self.report(FieldError::invalid(path, other, "must be a list"));
                vec![]
            }
            None => {
                // Reads an absent item, so that the keys of an item are known keys, and drops its errors.
                let errors = self.document.results.borrow().errors.len();
                item(format!("{path}[]"), None);
                self.document.results.borrow_mut().errors.truncate(errors);
                vec![]
            }
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// The value below `key`, of any type and with any keys.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.know(&format!("{key}.*"));
        self.present(key)
    }

    pub(super) fn bool(&self, key: &str) -> Option<bool> {
        self.get(key, "must be true or false", Value::as_bool)
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.get(key, "must be a string; put it in quotes", |value| value.as_str().map(str::to_owned))
    }

    /// A string that is not empty. An empty string counts as absent.
    pub(super) fn non_empty_string(&self, key: &str) -> Option<String> {
        self.string(key).filter(|text| !text.is_empty())
    }

    pub(super) fn strings(&self, key: &str) -> Option<Vec<String>> {
        let strings = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
                .collect()
        };
        self.get(key, "must be a list of strings, none of them empty", strings)
    }

    pub(super) fn integer(&self, key: &str) -> Option<i64> {
        self.get(key, "must be an integer", Value::as_i64)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.get(key, "must be a number", Value::as_f64)
    }

    /// A duration in the syntax of Go. Zero counts as absent; a negative duration and one above [`MAX_DURATION`] are errors.
    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        let text = self.string(key)?;
        let positive = GoDuration::new(&text).value();
        let negative = text.strip_prefix('-').and_then(|rest| GoDuration::new(rest).value());
        match (positive, negative) {
            _ if text == "0" => None,
            (Some(duration), _) if duration > MAX_DURATION => {
                self.invalid(key, format!("must be at most {}h", MAX_DURATION.as_secs() / 3600));
                None
            }
            (Some(duration), _) => Some(duration).filter(|duration| !duration.is_zero()),
            (None, Some(_)) => {
                self.invalid(key, "must be greater than 0");
                None
            }
            (None, None) => {
                self.invalid(key, "must be a duration such as 15s or 1m30s");
                None
            }
        }
    }

    /// A value of an enum; an empty string counts as absent.
    pub(super) fn enum_value<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.non_empty_string(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.report(FieldError::not_supported(self.path_of(key), &text.into(), &words));
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Requires this exact string.
    pub(super) fn must_be(&self, key: &str, expected: &str) {
        match self.string(key) {
            Some(text) if text == expected => {}
            Some(_) => self.invalid(key, format!("must be {expected}")),
            None if self.present(key).is_none() => {
                self.report(FieldError::required(self.path_of(key), format!("must be {expected}")));
            }
            None => {}
        }
    }

    /// Reports that the value below `key` is invalid.
    pub(super) fn invalid(&self, key: &str, remedy: impl Into<String>) {
        let value = self.present(key).cloned().unwrap_or_default();
        self.report(FieldError::invalid(self.path_of(key), &value, remedy));
    }

    /// Reports that the value below `key` is invalid, and shows the effective value, which may be a default.
    pub(super) fn invalid_effective(&self, key: &str, effective: impl Into<Value>, remedy: impl Into<String>) {
        self.report(FieldError::invalid(self.path_of(key), &effective.into(), remedy));
    }

    pub(super) fn report(&self, error: FieldError) {
        self.document.results.borrow_mut().errors.push(error);
    }

    /// Reports that the value below `key` is valid but has no effect, with the reason.
    pub(super) fn warn(&self, key: &str, reason: &str) {
        let warning = format!("{}: {reason}", self.path_of(key));
        self.document.results.borrow_mut().warnings.push(warning);
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    fn get<T>(&self, key: &str, remedy: &str, convert: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.raw(key)?;
        let converted = convert(value);
        if converted.is_none() {
            self.report(FieldError::invalid(self.path_of(key), value, remedy));
        }
        converted
    }

    /// The value below `key`, which becomes a known key.
    fn raw(&self, key: &str) -> Option<&'a Value> {
        self.know(key);
        self.present(key)
    }

    /// The value below `key`, unless it is null, which YAML uses for an absent value.
    fn present(&self, key: &str) -> Option<&'a Value> {
        self.content.and_then(|content| content.get(key)).filter(|value| !value.is_null())
    }

    fn know(&self, key: &str) {
        let key = join(&self.pattern, key);
        self.document.results.borrow_mut().keys.insert(key);
    }

    fn mapping(&self, value: Option<&'a Value>, path: &str) -> Option<&'a Value> {
        let value = value.filter(|value| !value.is_null())?;
        if !value.is_object() {
            self.report(FieldError::invalid(path.to_owned(), value, "must be a mapping"));
        }
        Some(value).filter(|value| value.is_object())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
