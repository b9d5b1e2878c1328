//! Creates of children that the API server rejected. Each owner retries them with exponential backoff, after 500 ms to 1 minute
//! (`Backoff::for_objects`). In a terminating namespace a plan has no creates. So the API server rejects only creates that were sent
//! before the watch event of that namespace.
//!
//! A rejection concerns a kind or one object:
//! - a quota rejects further objects of the kind, too. Until the backoff ends, nothing of this kind is created for the owner. The retry
//!   begins with one create and ends at a rejection. It is earlier when an object of the namespace is deleted, since that may release quota.
//!   The controllers do not watch `ResourceQuota`s, so only the next retry notices a larger quota;
//! - a policy, a webhook, a validation or a missing permission (403) rejects one child of a set or a group. Later creates of its replica
//!   (failure domain) wait. All other children are created. After many such rejections of a kind, nothing of it is created until the
//!   backoff ends, so that memory and the number of rejections have a bound;
//! - if children are alike, as the pods of a clique are, every rejection except a name conflict concerns all of them.
//!
//! A reconcile with a rejected create also fails, so the rate limiter of the controller enqueues the owner again. The backoff
//! decides whether that reconcile sends the create. For sets and groups, `children/step_filter.rs` omits it. `rejections.rs` has the
//! message of the condition. Until the backoff ends, the plan omits the create and requeues the owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};

use grove_api_types::error_codes;
use grove_runtime::{api_error::ApiError, backoff::Backoff, caches::Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    executor::ExecutionResult,
    group_kind::group_kind,
    plan::{Plan, SlowStart, Target},
};

/// After this many rejections of objects of one kind, nothing of the kind is created for their owner until the backoff ends.
const MAX_REJECTIONS: usize = 2048;
/// The same for the bytes of the manifests and of the messages.
const MAX_REJECTED_BYTES: usize = 2 << 20;

/// The deletion of one object ends the backoff of at most this many owners of its namespace. The released quota suffices for about
/// one object, and the creates of all other owners would be rejected again.
const MAX_RETRIES_PER_DELETE: usize = 4;

/// A child with a rejected create, and the error.
pub type RejectedCreate = (Target, ApiError);

/// The rejected creates of one owner: those that wait for their retry, and those that this reconcile retries.
#[derive(Clone, Debug, Default)]
pub struct BackedOffCreates {
    /// The children that wait.
    pub children: Vec<RejectedCreate>,
    /// The kinds of which no object is created: a quota rejected one of them, or as many were rejected as memory stores. Objects that
    /// were not sent wait, too, and are not among `children`.
    pub blocked_kinds: BTreeSet<String>,
    /// The time until the next retry; absent if nothing waits.
    pub retry_after: Option<Duration>,
    /// The kinds that this reconcile retries after nothing of them was created.
    pub retried_kinds: BTreeSet<String>,
}

impl BackedOffCreates {
    /// How to begin the creates of children if all of them are alike. `None` during the backoff, because the API server would reject them
    /// for the same reason.
    pub fn slow_start(&self) -> Option<SlowStart> {
        let is_retry = !self.retried_kinds.is_empty();
        self.children.is_empty().then_some(if is_retry { SlowStart::RETRY } else { SlowStart::INITIAL })
    }

    /// The verb, the object and the error of each failed write: the creates that wait for their retry and those that failed in this
    /// reconcile, by kind and with quotas first, then the other steps that failed. So the order is the same in each retry.
    pub fn failed_writes<'a>(
        &'a self,
        result: &'a ExecutionResult,
    ) -> impl Iterator<Item = (&'static str, &'a Target, &'a ApiError)> {
        let earlier = self.children.iter().map(|(target, error)| ("create", target, error));
        let failed = result.failed_steps().map(|(step, error)| (step.verb, &step.target, error));
        let (mut creates, others): (Vec<_>, Vec<_>) = earlier.chain(failed).partition(|(verb, _, _)| *verb == "create");
        creates.sort_by_key(|&(_, target, error)| {
            let resource = &target.resource;
            (resource.kind.as_str(), resource.group.as_str(), !error.is_quota_rejection())
        });
        creates.into_iter().chain(others)
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

    /// The plan with the time of the next retry.
    #[must_use]
    pub fn requeue(&self, plan: Plan) -> Plan {
        self.retry_after.into_iter().fold(plan, Plan::requeue_after)
    }
}

/// The rejected creates of one kind.
#[derive(Debug, Default)]
struct RejectedKind {
    children: Vec<RejectedCreate>,
    /// The bytes of their manifests and of the messages of the API server.
    bytes: usize,
    /// Whether a rejection concerns all objects of the kind.
    concerns_kind: bool,
}

impl RejectedKind {
    fn append(&mut self, later: Self) {
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.children.extend(later.children);
        self.concerns_kind |= later.concerns_kind;
    }

    /// Whether nothing of the kind is created until the backoff ends.
    fn is_blocked(&self) -> bool {
        self.concerns_kind || self.children.len() >= MAX_REJECTIONS || self.bytes >= MAX_REJECTED_BYTES
    }
}

/// The parts of an owner that alike children are created from: they copy its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnerVersion {
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl OwnerVersion {
    fn of(owner: &impl Resource) -> Self {
        let ObjectMeta { generation, labels, annotations, .. } = owner.meta().clone();
        Self { generation, labels, annotations }
    }
}

/// The rejected creates of one owner, and their backoff.
#[derive(Debug)]
struct Entry {
    name: String,
    /// The owner at the time of the rejection, as far as its children depend on it.
    owner_version: OwnerVersion,
    by_kind: BTreeMap<String, RejectedKind>,
    backoff: Backoff,
    /// The time of the last attempt.
    began: Instant,
    due: Instant,
}

impl Entry {
    fn of(owner: &impl Resource) -> Self {
        let (now, owner_version) = (Instant::now(), OwnerVersion::of(owner));
        let (by_kind, backoff) = (BTreeMap::new(), Backoff::for_objects());
        Self { name: owner.name_any(), owner_version, by_kind, backoff, began: now, due: now }
    }

    /// Begins the backoff after an attempt.
    fn begin(&mut self, owner: &impl Resource, rejected: BTreeMap<String, RejectedKind>) {
        self.began = Instant::now();
        self.due = self.began + self.backoff.next_delay();
        self.owner_version = OwnerVersion::of(owner);
        self.by_kind = rejected;
    }

    /// Whether a deletion may end the backoff.
    fn awaits_quota(&self, now: Instant) -> bool {
        self.due > now && self.by_kind.values().any(|rejected| rejected.concerns_kind)
    }
}

/// The namespace and the UID of an owner.
type OwnerKey = (String, String);

fn key_of(owner: &impl Resource) -> OwnerKey {
    (owner.namespace().unwrap_or_default(), owner.uid().unwrap_or_default())
}

/// The rejected creates of all owners of kind `K`. A clone shares its entries. An entry is removed when a retry succeeds, or
/// when the owner is deleted.
#[derive(Debug)]
pub struct CreateBackoff<K> {
    entries: Arc<Mutex<BTreeMap<OwnerKey, Entry>>>,
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
    /// For children that differ from each other. Only the rejection by a quota concerns more than one of them, and a change of the
    /// owner alone causes no retry.
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
    /// The rejected creates of `owner`.
    pub fn active(&self, owner: &K) -> BackedOffCreates {
        let (entries, mut active) = (self.entries.lock(), BackedOffCreates::default());
        let Some(entry) = entries.get(&key_of(owner)) else { return active };
        let blocked = entry.by_kind.iter().filter(|(_, rejected)| rejected.is_blocked());
        let blocked = blocked.map(|(kind, _)| kind.clone()).collect();
        let has_changed = self.children_are_alike && entry.owner_version != OwnerVersion::of(owner);
        let wait = entry.due.saturating_duration_since(Instant::now());
        if wait.is_zero() || has_changed {
            active.retried_kinds = blocked;
        } else {
            active.children = entry.by_kind.values().flat_map(|rejected| rejected.children.iter().cloned()).collect();
            (active.blocked_kinds, active.retry_after) = (blocked, Some(wait));
        }
        active
    }

    /// Records the rejected creates of a plan that was computed from `active`. The rejections of a plan during the backoff share the retry of
    /// the earlier ones. An attempt without a rejection ends the backoff.
    pub fn record(&self, owner: &K, active: &BackedOffCreates, result: &ExecutionResult) {
        let (rejected, key) = (self.rejected(result), key_of(owner));
        let mut entries = self.entries.lock();
        if active.retry_after.is_some()
            && let Some(entry) = entries.get_mut(&key)
        {
            for (kind, later) in rejected {
                entry.by_kind.entry(kind).or_default().append(later);
            }
        } else if !rejected.is_empty() {
            let entry = entries.entry(key).or_insert_with(|| Entry::of(owner));
            let creates = result.steps.iter().filter(|step| step.verb == "create" && step.result.is_ok());
            let concerns_kind = |kind: &String| rejected.get(kind).is_some_and(|it| it.concerns_kind);
            if creates.map(|step| group_kind(&step.target.resource)).any(|kind| concerns_kind(&kind)) {
                // A part of the children fits into the quota, so the next delays are short again.
                entry.backoff = Backoff::for_objects();
            }
            entry.begin(owner, rejected);
        } else if result.failures().all(ApiError::is_object_specific) {
            // A plan that a failure of the API server ended would prove nothing.
            entries.remove(&key);
        }
    }

    /// The rejected creates of a result, by kind.
    fn rejected(&self, result: &ExecutionResult) -> BTreeMap<String, RejectedKind> {
        let mut rejected: BTreeMap<_, RejectedKind> = BTreeMap::new();
        for (step, error) in result.failed_steps() {
            if step.verb == "create" && self.is_rejection(error) {
                rejected.entry(group_kind(&step.target.resource)).or_default().append(RejectedKind {
                    children: vec![(step.target.clone(), error.clone())],
                    bytes: step.bytes.saturating_add(error.message.len()),
                    concerns_kind: self.children_are_alike || error.is_quota_rejection(),
                });
            }
        }
        rejected
    }

    /// Whether the error delays the retry of the create.
    fn is_rejection(&self, error: &ApiError) -> bool {
        error.is_object_specific() && !(self.children_are_alike && error.code == 409)
    }

    /// Drops the entry of a deleted owner.
    pub fn forget(&self, owner: &K) {
        self.entries.lock().remove(&key_of(owner));
    }

    /// Ends the backoff of a few owners that wait for quota in the namespace of a deleted object, and returns these owners: those that
    /// have waited longest. An owner without a running backoff already has its retry. A quota counts a deletion a little later, so the retry
    /// may be too early: the next delays are short again.
    pub fn reset_on_delete<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let namespace = deleted.and_then(|object| object.namespace());
        namespace.map(|namespace| self.reset_on_delete_in(&namespace)).unwrap_or_default()
    }

    /// The same for the deletion of any object of this namespace.
    pub fn reset_on_delete_in(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let (mut entries, now) = (self.entries.lock(), Instant::now());
        let from_namespace = entries.range_mut((namespace.to_owned(), String::new())..);
        let of_namespace = from_namespace.take_while(|(key, _)| key.0 == namespace).map(|(_, entry)| entry);
        let mut waiting: Vec<_> = of_namespace.filter(|entry| entry.awaits_quota(now)).collect();
        waiting.sort_by_key(|entry| entry.began);
        let retried = waiting.into_iter().take(MAX_RETRIES_PER_DELETE);
        retried
            .map(|entry| {
                (entry.due, entry.backoff) = (now, Backoff::for_objects());
                ObjectRef::new(&entry.name).within(namespace)
            })
            .collect()
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
