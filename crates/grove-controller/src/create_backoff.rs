//! Creates of children that the API server rejected, for example with code 403 because of a quota. Each owner retries them with
//! exponential backoff, and sooner when an object of the namespace is deleted, since that may free quota. In a terminating namespace a
//! plan has no creates. So the API server rejects only creates that were sent before the watch event of that namespace.
//!
//! A reconcile with a rejected create also fails, so the rate limiter of the controller enqueues the owner again. The backoff
//! decides whether that reconcile sends the create. For sets and groups, `children/step_filter.rs` omits it. `rejections.rs` has the
//! message of the condition. Until the backoff ends, the plan omits the create and requeues the owner.

mod entries;

use std::{marker::PhantomData, sync::Arc, time::Duration};

use grove_api_types::error_codes;
use grove_runtime::{api_error::ApiError, backoff::Backoff, caches::Delta};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::entries::{Entries, OwnerVersion, RejectedCreates};
use crate::{
    executor::ExecutionResult,
    plan::{Plan, SlowStart, Target},
};

/// The deletion of one object ends the backoff of at most this many owners of its namespace. The released quota suffices for about
/// one object, and the creates of all other owners would be rejected again.
const MAX_RETRIES_PER_DELETE: usize = 4;

/// A child with a rejected create, and the error.
pub type RejectedCreate = (Target, ApiError);

/// The children of one owner that wait for their retry.
#[derive(Clone, Debug, Default)]
pub struct BackedOffCreates {
    /// The children.
    pub children: Vec<RejectedCreate>,
    /// The time until their retry; absent if nothing waits.
    pub retry_after: Option<Duration>,
    /// Whether the backoff has ended, so that this reconcile retries the creates.
    pub is_retry: bool,
    /// The number of earlier retries.
    pub retries: usize,
    /// The number of creates that the first attempt and the retries sent, and the API server rejected. A retry that cannot send all
    /// creates begins behind as many of them.
    pub earlier_rejections: usize,
}

impl BackedOffCreates {
    /// How to begin the creates of `missing` children if all of them are alike. `None` during the backoff, because the API server
    /// would reject them for the same reason.
    pub fn slow_start(&self, missing: usize) -> Option<SlowStart> {
        match (self.children.is_empty(), self.is_retry) {
            (false, _) => None,
            (true, true) => Some(SlowStart::for_retry(self.retries, missing)),
            (true, false) => Some(SlowStart::INITIAL),
        }
    }

    /// The verb, the object and the error of each failed write: the creates that wait for their retry, then the steps that
    /// failed in this reconcile.
    pub fn failed_writes<'a>(
        &'a self,
        result: &'a ExecutionResult,
    ) -> impl Iterator<Item = (&'static str, &'a Target, &'a ApiError)> {
        let earlier = self.children.iter().map(|(target, error)| ("create", target, error));
        earlier.chain(result.failed_steps().map(|(step, error)| (step.verb, &step.target, error)))
    }

    /// The code and the description of each failed write, for `lastErrors` of its owner.
    pub fn last_errors<'a, Owner: Resource<DynamicType = ()>>(
        &'a self,
        result: &'a ExecutionResult,
    ) -> impl Iterator<Item = (String, String)> {
        self.failed_writes(result).map(|(verb, target, error)| {
            let code = error_codes::for_write(&Owner::kind(&()), &target.resource.kind, verb);
            (code.to_owned(), format!("could not {verb} {target}: {error}"))
        })
    }

    /// The plan without the creates of these children, and without the later creates in the same failure domains.
    pub fn remove_from(&self, plan: Plan) -> Plan {
        let plan = plan.skip_creates(self.children.iter().map(|(target, _)| target));
        match self.retry_after {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

/// The rejected creates of all owners of kind `K`. A clone shares its entries. An entry is removed when a retry succeeds, or
/// when the owner is deleted.
#[derive(Debug)]
pub struct CreateBackoff<K> {
    entries: Arc<Mutex<Entries>>,
    children_are_alike: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for CreateBackoff<K> {
    fn clone(&self) -> Self {
        let Self { entries, children_are_alike, kind } = self;
        Self { entries: Arc::clone(entries), children_are_alike: *children_are_alike, kind: *kind }
    }
}

impl<K> Default for CreateBackoff<K> {
    /// For children that differ from each other. A rejection concerns one of them, and a change of the owner alone causes no
    /// retry.
    fn default() -> Self {
        Self { entries: Arc::default(), children_are_alike: false, kind: PhantomData }
    }
}

impl<K> CreateBackoff<K> {
    /// For children that are created from one template, under names that the owner chooses. A rejection concerns all of them:
    /// see [`BackedOffCreates::slow_start`]. A name conflict is no rejection, because the next create has another
    /// name. A new generation of the owner may have another template, so its children are created at once.
    pub fn of_alike_children() -> Self {
        Self { children_are_alike: true, ..Self::default() }
    }
}

impl<K: Resource<DynamicType = ()>> CreateBackoff<K> {
    /// The children of `owner` that wait for their retry.
    pub fn active(&self, owner: &K) -> BackedOffCreates {
        let (entries, now) = (self.entries.lock(), Instant::now());
        let Some(entry) = entries.get(&owner.uid().unwrap_or_default()) else {
            return BackedOffCreates::default();
        };
        let (retries, earlier_rejections) = (entry.retries, entry.rejections);
        let has_changed = self.children_are_alike && entry.owner_version != OwnerVersion::of(owner);
        if has_changed || entry.due <= now {
            return BackedOffCreates { is_retry: true, retries, earlier_rejections, ..BackedOffCreates::default() };
        }
        let (children, retry_after) = (entry.children.clone(), Some(entry.due.duration_since(now)));
        BackedOffCreates { children, retry_after, is_retry: false, retries, earlier_rejections }
    }

    /// Records the rejected creates of a plan from which `active` was removed.
    pub fn record(&self, owner: &K, active: &BackedOffCreates, result: &ExecutionResult) {
        let creates = result.failed_steps().filter(|(step, error)| step.verb == "create" && self.is_rejection(error));
        let rejected: Vec<_> = creates.map(|(step, error)| (step.target.clone(), error.clone())).collect();
        let (uid, is_retry) = (owner.uid().unwrap_or_default(), active.children.is_empty());
        let mut entries = self.entries.lock();
        if rejected.is_empty() && is_retry {
            // A result without a response of the API server proves nothing.
            if result.succeeded() {
                entries.remove(&uid);
            }
            return;
        }
        let entry = entries.get_or_insert(uid, || RejectedCreates::of(owner));
        entry.owner_version = OwnerVersion::of(owner);
        if !is_retry {
            entry.children.extend(rejected);
            return;
        }
        let has_created = result.steps.iter().any(|step| step.verb == "create" && step.result.is_ok());
        if self.children_are_alike && has_created {
            // A part of the children fits into the quota, so the next delays are short again.
            entry.backoff = Backoff::for_objects();
        }
        (entry.due, entry.retries) = (Instant::now() + entry.backoff.next_delay(), active.retries.wrapping_add(1));
        entry.rejections = active.earlier_rejections.wrapping_add(rejected.len());
        entry.children = rejected;
    }

    /// Whether the error delays the retry of the create.
    fn is_rejection(&self, error: &ApiError) -> bool {
        error.is_object_specific() && !(self.children_are_alike && error.code == 409)
    }

    /// Drops the entry of a deleted owner.
    pub fn forget(&self, owner: &K) {
        self.entries.lock().remove(&owner.uid().unwrap_or_default());
    }

    /// Ends the backoff of a few owners in the namespace of a deleted object, and returns these owners: those that have waited
    /// longest. An owner without a running backoff already has its retry.
    pub fn reset_on_delete<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let namespace = deleted.and_then(|object| object.namespace());
        namespace.map(|namespace| self.reset_on_delete_in(&namespace)).unwrap_or_default()
    }

    /// The same for the deletion of any object of this namespace.
    pub fn reset_on_delete_in(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let mut entries = self.entries.lock();
        let owner = |entry: &mut RejectedCreates| {
            entry.due = Instant::now();
            // A quota counts a deletion a little later, so the retry may be too early. The next delays are short again.
            entry.backoff = Backoff::for_objects();
            ObjectRef::new(&entry.name).within(&entry.namespace)
        };
        std::iter::from_fn(|| entries.pop_waiting(namespace).map(owner)).take(MAX_RETRIES_PER_DELETE).collect()
    }

    /// The number of owners with rejected creates.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether no owner has rejected creates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
