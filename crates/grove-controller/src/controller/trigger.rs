//! Why an object is enqueued.

use kube::{Resource, runtime::reflector::ObjectRef};

/// A reason to enqueue an object of kind `K`.
pub enum Trigger<K: Resource> {
    /// The desired state may differ from the observed state: reconcile now.
    Reconcile(ObjectRef<K>),
    /// Only the status of the object may change: reconcile after a debounce, and behind other reconciles.
    StatusOnly(ObjectRef<K>),
    /// The cause of earlier failures may be gone: reset the backoff of the object and reconcile soon.
    Retry(ObjectRef<K>),
}

impl<K: Resource> Trigger<K> {
    /// A trigger to reconcile, or only to update the status.
    pub fn new(needs_reconcile: bool, object: ObjectRef<K>) -> Self {
        if needs_reconcile { Self::Reconcile(object) } else { Self::StatusOnly(object) }
    }
}

impl<K: Resource> From<ObjectRef<K>> for Trigger<K> {
    fn from(object: ObjectRef<K>) -> Self {
        Self::Reconcile(object)
    }
}
