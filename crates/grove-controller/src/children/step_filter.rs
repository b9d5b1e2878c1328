//! Which creates and patches of children a plan omits. Such a child is not built, and the budget of the plan remains for the other
//! children. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Resource;

use super::step_budget::MAX_STEPS;
use crate::{
    create_backoff::BackedOffCreates,
    expectations::PendingCreates,
    name_conflict::{NameConflict, NameConflicts},
    plan::{Plan, Step, Waiting},
};

/// Which creates and patches of children a plan omits:
/// - creates under a name that another object has, and patches of objects that could not be decoded. An orphan of the owner is
///   adopted instead. For any other object the plan waits;
/// - creates that the API server rejected, until their backoff ends. If they are as many as a plan has steps, all creates, so that the
///   rejections have a bound;
/// - creates that earlier retries sent, if the plan is a retry without budget for all of them;
/// - creates in later stages of the failure domains of these creates;
/// - all creates in a terminating namespace;
/// - creates with pending watch events. These children exist, so that nothing waits for them.
#[derive(Debug)]
pub struct StepFilter<'a, Owner> {
    conflicts: NameConflicts<'a, Owner>,
    /// By kind and name of the child.
    conflicts_by_name: BTreeMap<(&'a str, &'a str), &'a NameConflict>,
    /// The rejected creates, by kind and name.
    rejected: BTreeSet<(&'a str, &'a str)>,
    retry_after: Option<Duration>,
    /// The number of rejections of earlier retries; absent if the plan is no retry.
    earlier_rejections: Option<usize>,
    /// The number of creates that the plan omits because earlier retries sent them.
    skipped: usize,
    /// The number of creates that the plan would contain with an unlimited budget, with the skipped ones.
    creates: usize,
    is_namespace_terminating: bool,
    /// Whether a create is omitted because the namespace is terminating.
    omits_for_namespace: bool,
    pending_creates: &'a PendingCreates,
    /// The failure domains with an omitted create in an earlier stage.
    blocked_domains: BTreeSet<i32>,
    /// The failure domains with an omitted create in the current stage.
    failed_domains: BTreeSet<i32>,
    waiting: Vec<Waiting>,
}

impl<'a, Owner: Resource<DynamicType = ()>> StepFilter<'a, Owner> {
    /// The filter of one plan.
    pub fn new(
        conflicts: NameConflicts<'a, Owner>,
        backed_off: &'a BackedOffCreates,
        pending_creates: &'a PendingCreates,
    ) -> Self {
        let by_name = |conflict: &'a NameConflict| {
            let target = &conflict.target;
            ((target.resource.kind.as_str(), target.name.as_str()), conflict)
        };
        let rejected = backed_off.children.iter().map(|(target, _)| target);
        Self {
            conflicts_by_name: conflicts.conflicts.iter().rev().map(by_name).collect(),
            conflicts,
            rejected: rejected.map(|target| (target.resource.kind.as_str(), target.name.as_str())).collect(),
            retry_after: backed_off.retry_after,
            earlier_rejections: backed_off.is_retry.then_some(backed_off.earlier_rejections),
            skipped: 0,
            creates: 0,
            is_namespace_terminating: false,
            omits_for_namespace: false,
            pending_creates,
            blocked_domains: BTreeSet::new(),
            failed_domains: BTreeSet::new(),
            waiting: Vec::new(),
        }
    }

    /// Omits all creates if the namespace is terminating. The end of its termination triggers the next plan.
    #[must_use]
    pub fn without_creates_if(self, is_namespace_terminating: bool) -> Self {
        Self { is_namespace_terminating, ..self }
    }

    /// Whether the plan creates or adopts a child that does not exist.
    pub(super) fn allows_create(&mut self, kind: &str, name: &str, failure_domain: Option<i32>) -> bool {
        let conflict = self.conflicts_by_name.get(&(kind, name)).copied();
        if conflict.is_some_and(|conflict| conflict.is_adoptable(self.conflicts.labels)) {
            return true;
        }
        self.waiting.extend(conflict.map(|conflict| self.conflicts.waiting(conflict)));
        let is_rejected = self.rejected.len() >= MAX_STEPS || self.rejected.contains(&(kind, name));
        if conflict.is_some() || is_rejected {
            self.failed_domains.extend(failure_domain);
            return false;
        }
        if self.omits_create_for_namespace() {
            return false;
        }
        let is_blocked = failure_domain.is_some_and(|domain| self.blocked_domains.contains(&domain));
        if is_blocked || self.pending_creates.contains(kind, name) {
            return false;
        }
        self.creates += 1;
        let is_skipped = self.creates <= self.skipped;
        self.failed_domains.extend(failure_domain.filter(|_| is_skipped));
        !is_skipped
    }

    /// Whether the plan omits the create of a missing child because the namespace is terminating.
    pub(super) fn omits_create_for_namespace(&mut self) -> bool {
        self.omits_for_namespace |= self.is_namespace_terminating;
        self.is_namespace_terminating
    }

    /// The adoption of the orphan that has the name of the child, or else the create.
    pub(super) fn adopt_or_create(&self, create: Step) -> Step {
        let Step::Create(child) = &create else { return create };
        let name = (child.target.resource.kind.as_str(), child.target.name.as_str());
        let adoption = self.conflicts_by_name.get(&name).map(|conflict| self.conflicts.adopt(conflict, child));
        adoption.unwrap_or(create)
    }

    /// Whether the plan changes a child that differs from the desired one.
    pub(super) fn allows_patch(&mut self, kind: &str, name: &str) -> bool {
        let conflict = self.conflicts_by_name.get(&(kind, name)).copied();
        let unreadable = conflict.filter(|conflict| conflict.unreadable.is_some());
        self.waiting.extend(unreadable.map(|conflict| self.conflicts.waiting(conflict)));
        unreadable.is_none()
    }

    /// Blocks the failure domains of the creates that the stage omits.
    pub(super) fn end_stage(&mut self) {
        self.blocked_domains.append(&mut self.failed_domains);
    }

    /// Prepares a second plan for a retry, if the first one has no budget for all creates. The second one begins behind the creates that
    /// earlier retries sent, and after the last create again with the first one. Otherwise each retry would send the same creates, and
    /// the other ones would never be sent.
    pub(super) fn skip_earlier_retries(&mut self) -> bool {
        let skipped = self.earlier_rejections.and_then(|rejections| rejections.checked_rem(self.creates));
        let Some(skipped) = skipped.filter(|skipped| *skipped > 0) else { return false };
        (self.skipped, self.creates, self.omits_for_namespace) = (skipped, 0, false);
        self.blocked_domains.clear();
        self.failed_domains.clear();
        self.waiting.clear();
        true
    }

    /// Adds to the plan why it omits steps, and when to reconcile the owner again.
    pub(super) fn finish(self, plan: Plan) -> Plan {
        let terminating = self.omits_for_namespace.then(Waiting::for_terminating_namespace);
        self.retry_after.into_iter().fold(plan.waiting(terminating).waiting(self.waiting), Plan::requeue_after)
    }
}

#[cfg(test)]
mod tests;
