//! Patches of live objects.

use kube::{Resource, ResourceExt};
use serde::{Serialize, Serializer, ser::Error};
use serde_json::{Value, json, value::RawValue};

use super::{Step, Target};

/// A change to a live object.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The patched object.
    pub target: Target,
    /// The change.
    pub change: PatchBody,
}

/// The body of a patch.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchBody {
    /// RFC 7386.
    Merge(MergePatch),
    /// RFC 6902, usually beginning with a `test`.
    Json(json_patch::Patch),
}

/// A merge patch as JSON text. A plan is in memory until its last write has ended, and the tree of a patch may need fifty times as many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePatch(Box<str>);

impl MergePatch {
    /// The JSON text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The JSON value.
    pub fn value(&self) -> Value {
        // The text was serialised from a value, so it parses.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<Value> for MergePatch {
    fn from(change: Value) -> Self {
        Self(change.to_string().into())
    }
}

impl Serialize for MergePatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        text.serialize(serializer)
    }
}

impl Step {
    /// Merges `change` into the object of this name, without a check of its resourceVersion.
    pub fn merge_patch<K: Resource<DynamicType = ()>>(object: &K, change: Value) -> Self {
        Self::Patch(Patch { target: Target::of(object), change: PatchBody::Merge(change.into()) })
    }

    /// Merges `change` into the object only if its resourceVersion is the observed one.
    pub fn merge_patch_with_optimistic_lock<K: Resource<DynamicType = ()>>(object: &K, mut change: Value) -> Self {
        json_patch::merge(&mut change, &json!({ "metadata": { "resourceVersion": object.resource_version() } }));
        Self::merge_patch(object, change)
    }

    /// Applies a JSON patch; its `test` operations are its preconditions.
    pub fn json_patch<K: Resource<DynamicType = ()>>(object: &K, change: json_patch::Patch) -> Self {
        Self::Patch(Patch { target: Target::of(object), change: PatchBody::Json(change) })
    }
}
