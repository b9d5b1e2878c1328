//! The in-memory state about the creates of one kind of owner: those that the API server rejected, and those that are not yet in
//! the caches.

use std::sync::Arc;

use grove_runtime::caches::{Cache, Delta, UnreadableObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::reflector::ObjectRef};

use crate::{
    create_backoff::{BackedOffCreates, CreateBackoff},
    executor::ExecutionResult,
    expectations::Expectations,
    plan::Plan,
};

/// The state about the creates of all owners of one kind. A clone shares it.
#[derive(Debug)]
pub struct CreateState<Owner> {
    /// The creates that the API server rejected.
    pub backoff: CreateBackoff<Owner>,
    /// The creates with pending watch events.
    pub expectations: Arc<Expectations>,
}

impl<Owner> Clone for CreateState<Owner> {
    fn clone(&self) -> Self {
        Self { backoff: self.backoff.clone(), expectations: Arc::clone(&self.expectations) }
    }
}

impl<Owner: Resource<DynamicType = ()>> CreateState<Owner> {
    /// No creates yet.
    pub fn new(backoff: CreateBackoff<Owner>) -> Self {
        Self { backoff, expectations: Arc::default() }
    }

    /// Expects the watch events of the creates of a plan, before it is executed. `relists` is the number of relists of the
    /// cache of a kind.
    pub fn expect_creations(&self, owner: &Owner, plan: &Plan, relists: impl Fn(&str) -> u64) {
        self.expectations.expect_creations(owner, plan, relists);
    }

    /// Records the UIDs of the created children, and starts the backoff of rejected creates. The plan was computed from `backed_off`.
    pub fn record(&self, owner: &Owner, backed_off: &BackedOffCreates, result: &ExecutionResult) {
        self.expectations.record_results(owner, result);
        self.backoff.record(owner, backed_off, result);
    }

    /// Ends the expectation of a deleted child: one that was created and deleted between two reconciles is in no cache. A
    /// deletion may release quota, so owners in its namespace that wait for quota are returned, to be retried.
    pub fn observe_delta<Child: Resource<DynamicType = ()>>(&self, delta: &Delta<Child>) -> Vec<ObjectRef<Owner>> {
        if let Some(deleted) = delta.old.as_deref().filter(|_| delta.is_delete()) {
            self.expectations.drop_deleted(deleted);
        }
        self.backoff.reset_on_delete(delta)
    }

    /// The same for a child that could not be decoded, if the cache no longer contains it. No delta reports its deletion.
    pub fn observe_unreadable<Child>(&self, cache: &Cache<Child>, object: &UnreadableObject) -> Vec<ObjectRef<Owner>>
    where
        Child: Resource<DynamicType = ()>,
    {
        let ObjectMeta { namespace, name, uid, .. } = &object.metadata;
        let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        if cache.contains_uid(namespace, name, uid.as_deref()) {
            return vec![];
        }
        self.expectations.drop_deleted_by_metadata::<Child>(&object.metadata);
        self.backoff.reset_on_delete_in(namespace)
    }

    /// Drops the state of a deleted owner.
    pub fn forget(&self, owner: &Owner) {
        self.backoff.forget(owner);
        self.expectations.forget(owner);
    }
}
