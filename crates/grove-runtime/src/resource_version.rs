//! The order of resource versions, which the API server counts up.

use kube::{Resource, ResourceExt};

/// Whether `object` is older than `known`. The API server sends an older object only after it was restored from a backup.
pub(crate) fn is_older<K: Resource>(object: &K, known: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    version(object).zip(version(known)).is_some_and(|(received, known)| received < known)
}
