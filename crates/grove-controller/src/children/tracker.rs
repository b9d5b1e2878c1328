//! What a reconciler needs to know about the children of its owners: the snapshot from the caches, and the creates that the
//! caches do not show.

use futures::stream::BoxStream;
use grove_runtime::caches::Cache;
use kube::Resource;

use super::{ChildKinds, ObservedChildren, OwnerKind};
use crate::{
    create_backoff::{BackedOffCreates, CreateBackoff},
    create_state::CreateState,
    executor::{ExecutionResult, Executor},
    expectations::{ChildKey, PendingCreates},
    name_conflict::NameConflict,
    plan::Plan,
    shared_informer_factory::SharedInformerFactory,
    state_metrics::StateMetrics,
    triggers::{Trigger, enqueue_all_on_relist},
};

/// The children of all owners of one kind.
#[derive(Debug)]
pub struct ChildTracker<O: OwnerKind> {
    kinds: ChildKinds<O>,
    informers: SharedInformerFactory,
    owners: Cache<O::Object>,
    creates: CreateState<O::Object>,
}

impl<O: OwnerKind> ChildTracker<O> {
    /// Starts the informers of the child kinds that no call has started yet. The owners are reconciled from the cache
    /// `owners`.
    pub fn new(kinds: ChildKinds<O>, informers: &SharedInformerFactory, owners: &Cache<O::Object>) -> Self {
        // The first request for a cache starts its informer.
        kinds.relists(informers).for_each(drop);
        let creates = CreateState::new(CreateBackoff::default());
        Self { kinds, informers: informers.clone(), owners: owners.clone(), creates }
    }

    /// The children that `owner` controls. The owner itself may be deleted.
    pub fn children(&self, owner: &O::Object) -> ObservedChildren {
        self.kinds.observe(&self.informers, owner)
    }

    /// The plan that deletes the children of a deleted owner.
    pub fn delete_dependents(&self, owner: &O::Object) -> Plan {
        self.kinds.delete_dependents(owner, &self.children(owner))
    }

    /// The objects that have the name of a desired child and that `owner` does not control, and the children of `owner` that could
    /// not be decoded.
    pub fn name_conflicts(&self, owner: &O::Object, expansion: &O::Expansion<'_>) -> Vec<NameConflict> {
        self.kinds.name_conflicts(&self.informers, owner, expansion)
    }

    /// The children with rejected creates, which wait or are retried.
    pub fn backed_off(&self, owner: &O::Object) -> BackedOffCreates {
        self.creates.backoff.active(owner)
    }

    /// The children that were created and that the caches do not have yet.
    pub fn pending_creates(&self, owner: &O::Object) -> PendingCreates {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let is_cached = |ChildKey { kind, name }: &ChildKey, uid: &str| {
            self.kinds.of_kind(kind).is_some_and(|row| row.is_cached(&self.informers, namespace, name, uid))
        };
        self.creates.expectations.pending(owner, is_cached, |kind| self.relists(kind))
    }

    /// Executes the plan, which was computed from `backed_off`.
    pub async fn execute(
        &self,
        executor: &Executor,
        owner: &O::Object,
        plan: &Plan,
        backed_off: &BackedOffCreates,
    ) -> ExecutionResult {
        self.creates.expect_creations(owner, plan, |kind| self.relists(kind));
        let result = executor.execute(owner, plan).await;
        self.creates.record(owner, backed_off, &result);
        result
    }

    /// Adds the maps about children to the metric of a controller.
    pub fn add_state_metrics(&self, metrics: &StateMetrics, controller: &'static str) {
        let CreateState { backoff, expectations } = self.creates.clone();
        metrics.add(controller, "rejected_creates", move || backoff.len());
        metrics.add(controller, "expectations", move || expectations.len());
    }

    /// Drops the in-memory state of a deleted owner.
    pub fn forget(&self, owner: &O::Object) {
        self.creates.forget(owner);
    }

    fn relists(&self, kind: &str) -> u64 {
        self.kinds.of_kind(kind).map_or(0, |row| *row.relists(&self.informers).borrow())
    }

    /// The owners to enqueue for deltas and relists of children.
    pub(crate) fn triggers(&self) -> Vec<BoxStream<'static, Trigger<O::Object>>> {
        let deltas = self.kinds.triggers(&self.informers, &self.creates);
        let relists = self.kinds.relists(&self.informers).collect();
        deltas.chain([enqueue_all_on_relist(&self.owners, relists)]).collect()
    }
}
