//! How an object is deleted: whether its deletion has begun, and whether its dependents stay.

use kube::Resource;

/// Whether the object is terminating: its deletion was requested (`metadata.deletionTimestamp` is set), and the API server
/// removes it as soon as it has no finalizer and, for a pod, as soon as its containers have stopped.
pub fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether the deletion of the object keeps its dependents, as `kubectl delete --cascade=orphan` requests. The API server
/// records that in the finalizer `orphan`.
pub fn orphans_dependents<K: Resource>(owner: &K) -> bool {
    has_finalizer(owner, "orphan")
}

/// Whether the deletion of the object ends only after that of its dependents, as `kubectl delete --cascade=foreground` requests.
/// The API server records that in the finalizer `foregroundDeletion`.
pub fn awaits_dependents<K: Resource>(owner: &K) -> bool {
    has_finalizer(owner, "foregroundDeletion")
}

fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|other| other == finalizer)
}
