//! The exponential backoff of each object after a failed reconcile. [`Backoff::for_objects`] has the numbers.

use std::{collections::BTreeMap, time::Duration};

use grove_runtime::backoff::Backoff;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

/// The backoff of failing objects, by UID. An entry is removed at the next success, or when the object is deleted.
#[derive(Debug, Default)]
pub(super) struct FailureRateLimiter {
    by_uid: Mutex<BTreeMap<String, Backoff>>,
}

impl FailureRateLimiter {
    /// Records a failure, and returns when to retry.
    pub(super) fn when<K: Resource>(&self, object: &K) -> Duration {
        let mut by_uid = self.by_uid.lock();
        by_uid.entry(object.uid().unwrap_or_default()).or_insert_with(Backoff::for_objects).next_delay()
    }

    /// The number of failing objects.
    pub(super) fn len(&self) -> usize {
        self.by_uid.lock().len()
    }

    /// Drops the failures of an object.
    pub(super) fn forget<K: Resource>(&self, object: &K) {
        self.by_uid.lock().remove(&object.uid().unwrap_or_default());
    }
}
