//! The dependencies of the reconcilers.

use std::sync::Arc;

use grove_controller::children::{ChildKinds, ChildTracker, OwnerKind};
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::clock::Clock;
use kube::Client;

use crate::informers::MnnvlCaches;
use crate::set_owner::SetOwner;

/// The dependencies of the reconciler of sets. Only `reconcile`, `triggers` and `observe` see it; `plan` and `status` get values.
pub(crate) struct SetContext {
    pub(crate) caches: MnnvlCaches,
    /// The domains of the sets.
    pub(crate) children: ChildTracker<SetOwner>,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
}

impl SetContext {
    /// The context of the reconciler `controller`, which publishes its events under that name. The domains are children of these `kinds`.
    pub(crate) fn new(
        manager: &Manager,
        caches: MnnvlCaches,
        controller: &'static str,
        kinds: ChildKinds<SetOwner>,
    ) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        let status_writer = StatusWriter::new(executor.clone());
        let context = Arc::new(Self {
            children: ChildTracker::new(kinds, &caches.informers, &caches.sets),
            caches,
            status_writer: status_writer.with_ownership(SetOwner::STATUS_OWNERSHIP),
            executor,
            clock: manager.clock(),
        });
        context.children.add_state_metrics(manager.state_metrics(), controller);
        let statuses: [NamedCount<Self>; 1] = [("statuses", |context| context.status_writer.statuses())];
        manager.state_metrics().add_all(controller, &context, &statuses);
        context
    }
}

/// The dependencies of the reconciler of domains.
pub(crate) struct DomainContext {
    pub(crate) caches: MnnvlCaches,
    pub(crate) executor: Executor,
    /// For live reads.
    pub(crate) client: Client,
}

impl DomainContext {
    /// The context of the reconciler `controller`.
    pub(crate) fn new(manager: &Manager, caches: MnnvlCaches, controller: &'static str) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        Arc::new(Self { caches, executor, client: manager.client() })
    }
}
