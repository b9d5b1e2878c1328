//! Reading a document key by key: what is asked for is a key that exists, and what is wrong is gathered, not thrown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

mod unknown;

use super::problem::Problem;
use crate::duration;

/// Nothing is waited for so long, and any moment can be so far away.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// A document and what was found out about it.
pub(super) struct Document<'a> {
    content: &'a Value,
    findings: RefCell<Findings>,
}

#[derive(Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<String>,
    /// Every key that was asked for, items of lists as `[]`.
    keys: BTreeSet<String>,
}

/// A mapping within the document, present or not.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// As users write it: `scheduler.profiles[1]`.
    path: String,
    /// As keys are listed: `scheduler.profiles[]`.
    pattern: String,
    content: Option<&'a Value>,
}

impl<'a> Document<'a> {
    pub(super) fn new(content: &'a Value) -> Self {
        Self { content, findings: RefCell::default() }
    }

    pub(super) fn root(&'a self) -> Section<'a> {
        let section = Section { document: self, path: String::new(), pattern: String::new(), content: None };
        Section { content: section.mapping(Some(self.content), "the file"), ..section }
    }

    /// The warnings, or everything that is wrong.
    pub(super) fn finish(&self) -> Result<Vec<String>, Vec<Problem>> {
        let Findings { problems, mut warnings, keys } = self.findings.take();
        if !problems.is_empty() {
            return Err(problems);
        }
        let unknown = unknown::keys(self.content, &keys);
        warnings.extend(unknown);
        Ok(warnings)
    }

    /// Every key that was asked for.
    pub(super) fn keys(&self) -> Vec<String> {
        self.findings.take().keys.into_iter().collect()
    }
}

impl<'a> Section<'a> {
    /// The mapping below `key`.
    pub(super) fn section(&self, key: &str) -> Section<'a> {
        let (path, pattern) = (join(&self.path, key), join(&self.pattern, key));
        let content = self.mapping(self.value(key), &path);
        Section { document: self.document, path, pattern, content }
    }

    /// The mappings listed below `key`, each as `read` takes it.
    pub(super) fn items<T>(&self, key: &str, read: impl Fn(&Section<'a>) -> T) -> Vec<T> {
        let (path, pattern) = (join(&self.path, key), join(&self.pattern, key) + "[]");
        let item = |path: String, value| {
            let content = self.mapping(value, &path);
            read(&Section { document: self.document, path, pattern: pattern.clone(), content })
        };
        match self.value(key) {
            Some(Value::Array(values)) => {
                values.iter().enumerate().map(|(at, value)| item(format!("{path}[{at}]"), Some(value))).collect()
            }
            Some(other) => {
                self.report(Problem::invalid(path, other.clone(), "must be a list"));
                vec![]
            }
            None => {
                // Nothing comes of it but that the keys of an item are known.
                let unheard = self.document.findings.borrow().problems.len();
                item(format!("{path}[]"), None);
                self.document.findings.borrow_mut().problems.truncate(unheard);
                vec![]
            }
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// The value below `key`, whatever it is, is fine.
    pub(super) fn anything(&self, key: &str) -> Option<&'a Value> {
        self.know(&format!("{key}.*"));
        self.raw(key)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key, "must be true or false", Value::as_bool)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key, "must be a string; put it in quotes", |value| value.as_str().map(str::to_owned))
    }

    /// A text that says something; an empty one counts as absent.
    pub(super) fn written(&self, key: &str) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    pub(super) fn texts(&self, key: &str) -> Option<Vec<String>> {
        let texts = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
                .collect()
        };
        self.get(key, "must be a list of strings, none of them empty", texts)
    }

    pub(super) fn whole(&self, key: &str) -> Option<i64> {
        self.get(key, "must be a whole number", Value::as_i64)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.get(key, "must be a number", Value::as_f64)
    }

    /// A duration as Go writes it. Zero counts as absent; what is below it or longer than [`LONGEST`] is refused.
    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        let text = self.text(key)?;
        let positive = duration::Duration::new(&text).value();
        let negative = text.strip_prefix('-').and_then(|rest| duration::Duration::new(rest).value());
        match (positive, negative) {
            _ if text == "0" => None,
            (Some(duration), _) if duration > LONGEST => {
                self.invalid(key, format!("must be at most {}h", LONGEST.as_secs() / 3600));
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

    /// One of a closed set of words; an empty text counts as absent.
    pub(super) fn one_of<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.written(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.report(Problem::unsupported(self.path_of(key), text.into(), &words));
        }
        chosen.map(|(_, choice)| *choice)
    }

    pub(super) fn must_be(&self, key: &str, wanted: &str) {
        match self.text(key) {
            Some(text) if text == wanted => {}
            Some(_) => self.invalid(key, format!("must be {wanted}")),
            None if self.raw(key).is_none() => {
                self.report(Problem::required(self.path_of(key), format!("must be {wanted}")));
            }
            None => {}
        }
    }

    /// The value below `key` is wrong.
    pub(super) fn invalid(&self, key: &str, remedy: impl Into<String>) {
        let value = self.raw(key).cloned().unwrap_or_default();
        self.report(Problem::invalid(self.path_of(key), value, remedy));
    }

    /// What was made of the value below `key`, with its defaults, is wrong.
    pub(super) fn invalid_as(&self, key: &str, made: impl Into<Value>, remedy: impl Into<String>) {
        self.report(Problem::invalid(self.path_of(key), made.into(), remedy));
    }

    pub(super) fn report(&self, problem: Problem) {
        self.document.findings.borrow_mut().problems.push(problem);
    }

    /// The value below `key` is let pass, and `why` nothing comes of it.
    pub(super) fn warn(&self, key: &str, why: &str) {
        let warning = format!("{}: {why}", self.path_of(key));
        self.document.findings.borrow_mut().warnings.push(warning);
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    fn get<T>(&self, key: &str, remedy: &str, take: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let taken = take(value);
        if taken.is_none() {
            self.report(Problem::invalid(self.path_of(key), value.clone(), remedy));
        }
        taken
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.know(key);
        self.raw(key)
    }

    // Null is how YAML writes that nothing is written.
    fn raw(&self, key: &str) -> Option<&'a Value> {
        self.content.and_then(|content| content.get(key)).filter(|value| !value.is_null())
    }

    fn know(&self, key: &str) {
        let key = join(&self.pattern, key);
        self.document.findings.borrow_mut().keys.insert(key);
    }

    fn mapping(&self, value: Option<&'a Value>, path: &str) -> Option<&'a Value> {
        let value = value.filter(|value| !value.is_null())?;
        if !value.is_object() {
            self.report(Problem::invalid(path.to_owned(), value.clone(), "must be a mapping"));
        }
        Some(value).filter(|value| value.is_object())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
