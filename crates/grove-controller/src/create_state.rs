//! The in-memory state about the creates of one kind of owner, which deltas of children change.

use std::sync::Arc;

use grove_api_types::ownership::controller_of;
use grove_runtime::caches::{Cache, Delta};
use kube::{Resource, runtime::reflector::ObjectRef};

use crate::{create_backoff::CreateBackoff, expectations::Expectations, name_waiters::NameWaiters};

/// The state about the creates of all owners of one kind. A clone shares it.
#[derive(Debug)]
pub struct CreateState<Owner> {
    /// The owners that wait for the names of their children.
    pub name_waiters: NameWaiters<Owner>,
    /// The creates that the API server rejected.
    pub backoff: CreateBackoff<Owner>,
    /// The creates whose watch events are pending.
    pub expectations: Arc<Expectations>,
}

impl<Owner> Clone for CreateState<Owner> {
    fn clone(&self) -> Self {
        let (name_waiters, backoff) = (self.name_waiters.clone(), self.backoff.clone());
        Self { name_waiters, backoff, expectations: Arc::clone(&self.expectations) }
    }
}

impl<Owner: Resource<DynamicType = ()>> CreateState<Owner> {
    /// No creates yet. `owners` is the cache that the owners are reconciled from.
    pub fn new(owners: &Cache<Owner>) -> Self {
        Self { name_waiters: NameWaiters::new(owners), backoff: CreateBackoff::default(), expectations: Arc::default() }
    }

    /// Ends the expectation of a deleted child. A deletion may release quota, so the owners in its namespace whose creates
    /// are backed off are returned, to be retried.
    pub fn observe_delta<Child: Resource<DynamicType = ()>>(&self, delta: &Delta<Child>) -> Vec<ObjectRef<Owner>> {
        let deleted = delta.old.as_deref().filter(|_| delta.is_delete());
        if let Some((child, owner)) = deleted.and_then(|child| Some((child, controller_of(child.meta())?))) {
            self.expectations.observe_deletion(&owner.uid, child);
        }
        self.backoff.reset_on_delete(delta)
    }

    /// Drops the state of a deleted owner.
    pub fn forget(&self, owner: &Owner) {
        self.name_waiters.forget(owner);
        self.backoff.forget(owner);
        self.expectations.forget(owner);
    }
}
