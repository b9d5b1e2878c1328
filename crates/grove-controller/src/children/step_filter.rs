//! Which creates and patches of children a plan omits. Such a child is not built, and the budget of the plan remains for the other
//! children. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Resource;

use super::step_budget::StepLimit;
use crate::{
    create_backoff::BackedOffCreates,
    expectations::PendingCreates,
    group_kind::{group_kind, is_of_group_kind},
    name_conflict::{NameConflict, NameConflicts},
    plan::{Plan, SlowStart, Step, Target, Waiting},
};

/// Which creates and patches of children a plan omits:
/// - creates under a name that another object has, and patches of objects that could not be decoded. An orphan of the owner is
///   adopted instead. For any other object the plan waits;
/// - creates that the API server rejected, until their backoff ends;
/// - all creates of a kind during the backoff after a quota rejected one, or after so many rejections that memory stores no more;
/// - creates of a kind that exceed the limit of its retry;
/// - creates in later stages of the failure domains of these creates;
/// - all creates in a terminating namespace;
/// - creates with pending watch events. These children exist, so that nothing waits for them.
#[derive(Debug)]
pub struct StepFilter<'a, Owner> {
    conflicts: NameConflicts<'a, Owner>,
    /// By the name of the child, for each kind in the order of the conflicts.
    conflicts_by_name: BTreeMap<&'a str, Vec<&'a NameConflict>>,
    backed_off: &'a BackedOffCreates,
    /// The rejected creates, by name.
    rejected: BTreeMap<&'a str, Vec<&'a Target>>,
    is_namespace_terminating: bool,
    /// Whether a create is omitted because the namespace is terminating.
    omits_for_namespace: bool,
    pending_creates: &'a PendingCreates,
    /// The failure domains with an omitted create in an earlier stage.
    blocked_domains: BTreeSet<i32>,
    /// The failure domains with an omitted create in the current stage.
    failed_domains: BTreeSet<i32>,
    waiting: Vec<Waiting>,
    /// The time until the next plan because of name conflicts.
    retry_after: Option<Duration>,
}

impl<'a, Owner: Resource<DynamicType = ()>> StepFilter<'a, Owner> {
    /// The filter of one plan.
    pub fn new(
        conflicts: NameConflicts<'a, Owner>,
        backed_off: &'a BackedOffCreates,
        pending_creates: &'a PendingCreates,
    ) -> Self {
        let mut conflicts_by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for conflict in conflicts.conflicts {
            conflicts_by_name.entry(conflict.target.name.as_str()).or_default().push(conflict);
        }
        let mut rejected: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (target, _) in &backed_off.children {
            rejected.entry(target.name.as_str()).or_default().push(target);
        }
        Self {
            conflicts_by_name,
            conflicts,
            backed_off,
            rejected,
            is_namespace_terminating: false,
            omits_for_namespace: false,
            pending_creates,
            blocked_domains: BTreeSet::new(),
            failed_domains: BTreeSet::new(),
            waiting: Vec::new(),
            retry_after: None,
        }
    }

    /// Omits all creates if the namespace is terminating. The end of its termination triggers the next plan.
    #[must_use]
    pub fn without_creates_if(self, is_namespace_terminating: bool) -> Self {
        Self { is_namespace_terminating, ..self }
    }

    /// Admits the create or the adoption of a child that does not exist, or records why the plan omits it. `kind` is its [`group_kind`].
    pub(super) fn admit_create(&mut self, kind: &str, name: &str, failure_domain: Option<i32>) -> bool {
        let conflict = self.conflict(kind, name);
        if conflict.is_some_and(|conflict| conflict.is_adoptable(self.conflicts.labels)) {
            return true;
        }
        self.await_conflict(conflict);
        // A child with a pending watch event exists.
        let is_pending = self.pending_creates.contains(kind, name);
        if conflict.is_some() {
            self.failed_domains.extend(failure_domain);
            return false;
        }
        if !is_pending && self.is_backed_off(kind, name) {
            self.omit_create(failure_domain);
            return false;
        }
        if self.omit_for_namespace() || is_pending {
            return false;
        }
        !failure_domain.is_some_and(|domain| self.blocked_domains.contains(&domain))
    }

    fn is_backed_off(&self, kind: &str, name: &str) -> bool {
        let is_rejected = |target: &&Target| is_of_group_kind(&target.resource, kind);
        self.backed_off.blocked_kinds.contains(kind)
            || self.rejected.get(name).is_some_and(|targets| targets.iter().any(is_rejected))
    }

    /// The plan omits a create, so its later stages omit creates in this failure domain.
    pub(super) fn omit_create(&mut self, failure_domain: Option<i32>) {
        self.failed_domains.extend(failure_domain);
    }

    /// The limit of the creates of a kind, besides that of the plan.
    pub(super) fn create_limit(&self, kind: &str) -> StepLimit {
        if self.backed_off.retried_kinds.contains(kind) { StepLimit::AFTER_QUOTA } else { StepLimit::CREATES }
    }

    /// How the executor begins the creates of a kind.
    pub(super) fn slow_start(&self, kind: &str) -> Option<SlowStart> {
        self.backed_off.retried_kinds.contains(kind).then_some(SlowStart::RETRY_AFTER_QUOTA)
    }

    /// Omits the create of a missing child if the namespace is terminating, and records it.
    pub(super) fn omit_for_namespace(&mut self) -> bool {
        self.omits_for_namespace |= self.is_namespace_terminating;
        self.is_namespace_terminating
    }

    /// The adoption of the orphan that has the name of the child, or else the create.
    pub(super) fn adopt_or_create(&self, create: Step) -> Step {
        let Step::Create(child) = &create else { return create };
        let conflict = self.conflict(&group_kind(&child.target.resource), &child.target.name);
        conflict.map(|conflict| self.conflicts.adopt(conflict, child)).unwrap_or(create)
    }

    /// The first conflict about the child of this kind and name.
    fn conflict(&self, kind: &str, name: &str) -> Option<&'a NameConflict> {
        let of_kind = |conflict: &&&NameConflict| is_of_group_kind(&conflict.target.resource, kind);
        self.conflicts_by_name.get(name)?.iter().find(of_kind).copied()
    }

    /// Admits the patch of a child that differs from the desired one, or records why the plan omits it.
    pub(super) fn admit_patch(&mut self, kind: &str, name: &str) -> bool {
        let conflict = self.conflict(kind, name);
        let unreadable = conflict.filter(|conflict| conflict.unreadable.is_some());
        self.await_conflict(unreadable);
        unreadable.is_none()
    }

    /// The plan waits for the end of the conflict.
    fn await_conflict(&mut self, conflict: Option<&NameConflict>) {
        let Some(conflict) = conflict else { return };
        self.retry_after = self.retry_after.into_iter().chain(self.conflicts.retry_delay(conflict)).min();
        self.waiting.push(self.conflicts.waiting(conflict));
    }

    /// Blocks the failure domains of the creates that the stage omits.
    pub(super) fn end_stage(&mut self) {
        self.blocked_domains.append(&mut self.failed_domains);
    }

    /// Adds to the plan why it omits steps, and when to reconcile the owner again.
    pub(super) fn finish(self, plan: Plan) -> Plan {
        let terminating = self.omits_for_namespace.then(Waiting::for_terminating_namespace);
        let plan = self.backed_off.requeue(plan.waiting(terminating).waiting(self.waiting));
        self.retry_after.into_iter().fold(plan, Plan::requeue_after)
    }
}

#[cfg(test)]
mod tests;
