//! Versions of objects as numbers that grow.

use kube::{Resource, ResourceExt};

/// Whether the object is in an earlier version than it was known in: the API server was set back.
pub(crate) fn precedes<K: Resource>(object: &K, known: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    version(object).zip(version(known)).is_some_and(|(is, was)| is < was)
}
