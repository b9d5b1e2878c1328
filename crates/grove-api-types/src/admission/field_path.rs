//! The path of a field, and fingerprints by which ratcheting validation recognises a field after an item moved.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The path of a field, as Kubernetes writes it: `spec.template.cliques[0].spec.replicas`. Validation creates far more paths
/// than it reports, so a path becomes text only for an error.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Arc<Node>);

#[derive(Debug, PartialEq, Eq)]
struct Node {
    parent: Option<FieldPath>,
    segment: PathSegment,
}

#[derive(Debug, PartialEq, Eq)]
enum PathSegment {
    Field(Cow<'static, str>),
    /// The index of an item, and the fingerprint of its name.
    Item(usize, u64),
}

impl FieldPath {
    /// A path from the root of the object.
    pub fn new(path: &'static str) -> Self {
        Self(Arc::new(Node { parent: None, segment: PathSegment::Field(Cow::Borrowed(path)) }))
    }

    /// A field of this field.
    pub fn field(&self, name: &'static str) -> Self {
        self.child(PathSegment::Field(Cow::Borrowed(name)))
    }

    /// A field with a name that the user chose, for example a label.
    pub fn key(&self, name: &str) -> Self {
        self.child(PathSegment::Field(Cow::Owned(name.to_owned())))
    }

    /// An item of this list. `name` identifies the item when its index changes.
    pub fn item(&self, index: usize, name: &str) -> Self {
        self.child(PathSegment::Item(index, fingerprint(name)))
    }

    fn child(&self, segment: PathSegment) -> Self {
        Self(Arc::new(Node { parent: Some(self.clone()), segment }))
    }

    /// Identifies the field within its object. It covers the names of items and not their indices, so that an item that moved
    /// keeps its fingerprint.
    pub(super) fn fingerprint(&self) -> u64 {
        let parent = self.0.parent.as_ref().map_or(0, Self::fingerprint);
        match &self.0.segment {
            PathSegment::Field(name) => fingerprint((parent, name)),
            PathSegment::Item(_, name) => fingerprint((parent, (), name)),
        }
    }

    /// Whether the field is in the spec, and not in the metadata of the object.
    pub(super) fn is_within_spec(&self) -> bool {
        match (&self.0.parent, &self.0.segment) {
            (Some(parent), _) => parent.is_within_spec(),
            (None, PathSegment::Field(name)) => name.starts_with("spec"),
            (None, PathSegment::Item(..)) => false,
        }
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.0.parent {
            parent.fmt(f)?;
        }
        match &self.0.segment {
            PathSegment::Field(name) if self.0.parent.is_some() => write!(f, ".{name}"),
            PathSegment::Field(name) => f.write_str(name),
            PathSegment::Item(index, _) => write!(f, "[{index}]"),
        }
    }
}

/// A hash that replaces a value in comparisons, so that the value need not be stored.
pub(super) fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
