//! Creates of children that the API server rejected. Each owner retries them with exponential backoff, after 500 ms to 1 minute
//! (`Backoff::for_objects`). In a terminating namespace a plan has no creates. So the API server rejects only creates that were sent
//! before the watch event of that namespace.
//!
//! A rejection concerns a kind or one object:
//! - a quota rejects further objects of the kind, too. Until the backoff ends, nothing of this kind is created for the owner. The retry
//!   uses slow start, and is earlier when an object of the namespace is deleted, since that may release quota. The controllers do not
//!   watch `ResourceQuota`s, so only the next retry notices a larger quota. If many owners of a namespace wait, their retries have a common
//!   rate (`create_backoff/entries.rs`);
//! - a policy, a webhook, a validation or a missing permission (403) rejects one child of a set or a group. Later creates of its replica
//!   (failure domain) wait. All other children are created. After many such rejections of a kind, nothing of it is created until the
//!   backoff ends, so that memory and the number of rejections have a bound;
//! - if children are alike, as the pods of a clique are, every rejection except a name conflict concerns all of them. The retries try
//!   each pod in turn (`clique/plan/creates.rs` of pclq-controller).
//!
//! A reconcile with a rejected create also fails, so the rate limiter of the controller enqueues the owner again. The backoff
//! decides whether that reconcile sends the create. For sets and groups, `children/step_filter.rs` omits it. `rejections.rs` has the
//! message of the condition. Until the backoff ends, the plan omits the create and requeues the owner.

mod entries;

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};

use grove_api_types::error_codes;
use grove_runtime::{api_error::ApiError, caches::Delta};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::entries::{BackedOffKind, Entries, KindKey, OwnerVersion, RejectedCreates, Rejections};
use crate::{
    executor::ExecutionResult,
    group_kind::group_kind,
    plan::{Plan, SlowStart, Step, Target},
};

/// After this many rejections of objects of one kind, nothing of the kind is created for their owner until the backoff ends. Its retry
/// has at most as many creates. That is half of a plan, so that other kinds are created, too.
pub(crate) const MAX_REJECTIONS: usize = 2048;
/// The same for the bytes of the manifests and of the messages.
pub(crate) const MAX_REJECTED_BYTES: usize = 2 << 20;

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
    /// The kinds that this reconcile retries after a rejection that concerned the kind, with the number of earlier attempts.
    pub retried_kinds: BTreeMap<String, usize>,
    /// The kinds of the single objects that this reconcile retries, with the number of rejections of the earlier attempts.
    pub retried_objects: BTreeMap<String, usize>,
}

impl BackedOffCreates {
    /// How to begin the creates of `missing` children if all of them are alike. `None` during the backoff, because the API server
    /// would reject them for the same reason.
    pub fn slow_start(&self, missing: usize) -> Option<SlowStart> {
        match (self.children.is_empty(), self.retried_kinds.values().next()) {
            (false, _) => None,
            (true, Some(retries)) => Some(SlowStart::for_retry(*retries, missing)),
            (true, None) => Some(SlowStart::INITIAL),
        }
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

    /// The retries of the executed plan, without those of kinds of which it sent no create although objects are missing: the budget of
    /// the plan was used up, or their failure domains are blocked. They prove nothing, so their backoff continues.
    #[must_use]
    pub fn attempted(&self, plan: &Plan, result: &ExecutionResult) -> Self {
        let blocked_kinds = self.blocked_kinds.clone();
        if self.retried_kinds.is_empty() && self.retried_objects.is_empty() {
            return Self { blocked_kinds, ..Self::default() };
        }
        let planned = plan.steps().filter(|step| matches!(step, Step::Create(_)));
        let planned = planned.map(|step| group_kind(&step.target().resource));
        let missing: BTreeSet<_> = planned.chain(plan.omitted_kinds.iter().cloned()).collect();
        let creates = result.steps.iter().filter(|step| step.verb == "create");
        let sent: BTreeSet<_> = creates.map(|step| group_kind(&step.target.resource)).collect();
        let retain = |retried: &BTreeMap<String, usize>| {
            let is_attempted = |kind: &str| sent.contains(kind) || !missing.contains(kind);
            let attempted = retried.iter().filter(|(kind, _)| is_attempted(kind.as_str()));
            attempted.map(|(kind, count)| (kind.clone(), *count)).collect::<BTreeMap<_, _>>()
        };
        let (retried_kinds, retried_objects) = (retain(&self.retried_kinds), retain(&self.retried_objects));
        Self { blocked_kinds, retried_kinds, retried_objects, ..Self::default() }
    }

    /// Adds the rejected creates of one kind, which wait or are due.
    fn add(&mut self, key: &KindKey, backed_off: &BackedOffKind, wait: Duration) {
        let KindKey { kind, concerns_kind } = key.clone();
        if wait.is_zero() && concerns_kind {
            self.retried_kinds.insert(kind, backed_off.attempts);
        } else if wait.is_zero() {
            self.retried_objects.insert(kind, backed_off.rejections);
        } else {
            self.children.extend(backed_off.rejected.children.iter().cloned());
            self.retry_after = Some(self.retry_after.map_or(wait, |earlier| earlier.min(wait)));
            self.blocked_kinds.extend(Some(kind).filter(|_| concerns_kind || backed_off.rejected.is_full()));
        }
    }

    fn is_retry(&self, key: &KindKey) -> bool {
        let retried = if key.concerns_kind { &self.retried_kinds } else { &self.retried_objects };
        retried.contains_key(&key.kind)
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
        let (entries, now, mut active) = (self.entries.lock(), Instant::now(), BackedOffCreates::default());
        let Some(entry) = entries.get(&owner.uid().unwrap_or_default()) else { return active };
        let has_changed = self.children_are_alike && entry.owner_version != OwnerVersion::of(owner);
        let wait = |backed_off: &BackedOffKind| {
            if has_changed { Duration::ZERO } else { backed_off.due.saturating_duration_since(now) }
        };
        for (key, backed_off) in &entry.by_kind {
            let quota = KindKey { concerns_kind: true, ..key.clone() };
            let is_quota_due = || entry.by_kind.get(&quota).is_some_and(|quota| wait(quota).is_zero());
            if !key.concerns_kind && wait(backed_off).is_zero() && is_quota_due() {
                // The retry after the quota is small, so it does not retry all of the other rejected objects of the kind.
                active.children.extend(backed_off.rejected.children.iter().cloned());
            } else {
                active.add(key, backed_off, wait(backed_off));
            }
        }
        active
    }

    /// Records the rejected creates of a plan that was computed from `active`. Ends the backoff of each kind that it retried without a
    /// failed create, and that after a quota if the retry created an object and no quota rejected one.
    pub fn record(&self, owner: &K, active: &BackedOffCreates, result: &ExecutionResult) {
        let (rejected, uid) = (self.rejected(result), owner.uid().unwrap_or_default());
        let creates = result.steps.iter().filter(|step| step.verb == "create");
        let (successes, failures): (Vec<_>, Vec<_>) = creates.partition(|step| step.result.is_ok());
        let [created_kinds, failed_kinds] = [successes, failures]
            .map(|steps| steps.into_iter().map(|step| group_kind(&step.target.resource)).collect::<BTreeSet<_>>());
        let mut entries = self.entries.lock();
        // A plan that a failure of the API server ended proves nothing, nor does one without creates of the kind because of a quota.
        let has_answers = result.failures().all(ApiError::is_object_specific);
        let has_failed = |kind: &str| failed_kinds.contains(kind) || active.blocked_kinds.contains(kind);
        entries.end(&uid, |key| {
            let is_ended = if key.concerns_kind && created_kinds.contains(&key.kind) {
                // The failures of other kinds and of single objects do not concern the quota. The next plan ends at its first rejection.
                !rejected.contains_key(key)
            } else {
                has_answers && !has_failed(&key.kind)
            };
            active.is_retry(key) && is_ended
        });
        if rejected.is_empty() {
            return;
        }
        let min_delay = entries.min_retry_delay(&owner.namespace().unwrap_or_default());
        let entry = entries.get_or_insert(uid, || RejectedCreates::of(owner));
        entry.owner_version = OwnerVersion::of(owner);
        for (key, rejections) in rejected {
            let (is_retry, has_created) = (active.is_retry(&key), created_kinds.contains(&key.kind));
            entry.add(key, rejections, (is_retry, has_created), min_delay);
        }
    }

    /// The rejected creates of a result by kind, and by whether the rejection concerns the kind.
    fn rejected(&self, result: &ExecutionResult) -> BTreeMap<KindKey, Rejections> {
        let mut rejected: BTreeMap<_, Rejections> = BTreeMap::new();
        for (step, error) in result.failed_steps() {
            if step.verb == "create" && self.is_rejection(error) {
                let concerns_kind = self.children_are_alike || error.is_quota_rejection();
                let key = KindKey { kind: group_kind(&step.target.resource), concerns_kind };
                rejected.entry(key).or_default().push((step.target.clone(), error.clone()), step.bytes);
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
        self.entries.lock().remove(&owner.uid().unwrap_or_default());
    }

    /// Ends the backoff of a few owners that wait for quota in the namespace of a deleted object, and returns these owners: those that
    /// have waited longest. An owner without a running backoff already has its retry. The deletion does not change why the API server
    /// rejected single objects, so their backoff continues.
    pub fn reset_on_delete<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let namespace = deleted.and_then(|object| object.namespace());
        namespace.map(|namespace| self.reset_on_delete_in(&namespace)).unwrap_or_default()
    }

    /// The same for the deletion of any object of this namespace.
    pub fn reset_on_delete_in(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let mut entries = self.entries.lock();
        let owner = |entry: &mut RejectedCreates| {
            entry.end_backoff_of_kinds();
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
