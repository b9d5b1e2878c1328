//! The dependencies of a reconciler.

use std::sync::Arc;

use grove_api_types::scheduler::Scheduler;
use grove_controller::children::{ChildKinds, ChildTracker, OwnerKind};
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::caches::Cache;
use grove_runtime::clock::Clock;
use kube::Client;

use crate::informers::PcsCaches;

/// The dependencies of the reconciler of one kind of owner. Only `reconcile`, `triggers` and `observe` see it; `plan` and
/// `status` get values.
pub(crate) struct Context<O: OwnerKind> {
    pub(crate) caches: PcsCaches,
    /// The children of the owners.
    pub(crate) children: ChildTracker<O>,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
    /// For live reads.
    pub(crate) client: Client,
    /// The scheduler of pods whose template names none.
    pub(crate) default_scheduler: Scheduler,
}

impl<O: OwnerKind> Context<O> {
    /// The context of the reconciler `controller`, which publishes its events under that name. It reconciles the objects of
    /// `owners`, and their children of these `kinds`.
    pub(crate) fn new(
        manager: &Manager,
        caches: &PcsCaches,
        controller: &'static str,
        kinds: ChildKinds<O>,
        owners: &Cache<O::Object>,
    ) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        let context = Arc::new(Self {
            caches: caches.clone(),
            children: ChildTracker::new(kinds, &caches.informers, owners),
            status_writer: StatusWriter::new(executor.clone()).with_ownership(O::STATUS_OWNERSHIP),
            executor,
            clock: manager.clock(),
            client: manager.client(),
            default_scheduler: manager.config().schedulers.default_profile,
        });
        context.children.add_state_metrics(manager.state_metrics(), controller);
        let statuses: [NamedCount<Self>; 1] = [("statuses", |context| context.status_writer.statuses())];
        manager.state_metrics().add_all(controller, &context, &statuses);
        context
    }
}
