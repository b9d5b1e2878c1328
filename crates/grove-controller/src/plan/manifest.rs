//! The manifest of an object to create: JSON text, or a template that renders the text when the request is sent.

use std::{borrow::Cow, fmt::Debug, sync::Arc};

use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

/// Renders the manifests of alike objects, which differ only in their name and their index.
pub trait ManifestTemplate: Debug + Send + Sync {
    /// The object of this name and index as JSON text, with `apiVersion` and `kind`.
    fn render(&self, name: &str, index: i32) -> String;
}

/// The manifest of one object. A plan may create thousands of objects. As a `Value`, each of them would be ten times as large as
/// its text. Alike objects share one template, and at most as many texts exist as writes are in flight.
#[derive(Clone, Debug)]
pub struct Manifest(Source);

#[derive(Clone, Debug)]
enum Source {
    Text(Box<str>),
    Template { template: Arc<dyn ManifestTemplate>, name: Box<str>, index: i32 },
}

impl Manifest {
    #[expect(clippy::expect_used, reason = "an API object consists of maps with string keys, which always serialise")]
    pub(super) fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        let text = serde_json::to_string(object).expect("an API object serialises");
        // Slim types do not always serialise their own `apiVersion` and `kind`.
        if text.starts_with(r#"{"apiVersion":"#) {
            return Self(Source::Text(text.into()));
        }
        let (version, kind) = (json!(K::api_version(&())), json!(K::kind(&())));
        let typed = text.replacen('{', &format!(r#"{{"apiVersion":{version},"kind":{kind},"#), 1);
        Self(Source::Text(typed.into()))
    }

    pub(super) fn from_template(template: Arc<dyn ManifestTemplate>, name: &str, index: i32) -> Self {
        Self(Source::Template { template, name: name.into(), index })
    }

    /// The object as JSON. A template renders it at each call.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Source::Text(text) => Cow::Borrowed(text.as_ref()),
            Source::Template { template, name, index } => Cow::Owned(template.render(name, *index)),
        }
    }

    /// The object as a JSON value.
    pub fn value(&self) -> Value {
        // The text was serialised from an object, so it parses.
        serde_json::from_str(&self.text()).unwrap_or_default()
    }

    /// The index of the object among the objects of its template.
    pub fn index(&self) -> Option<i32> {
        match &self.0 {
            Source::Text(_) => None,
            Source::Template { template: _, name: _, index } => Some(*index),
        }
    }

    /// The number of bytes that the manifest occupies in a plan. Objects of one template share its bytes.
    pub fn stored_bytes(&self) -> usize {
        match &self.0 {
            Source::Text(text) => text.len(),
            Source::Template { template: _, name, index: _ } => name.len(),
        }
    }
}

impl PartialEq for Manifest {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Manifest {}
