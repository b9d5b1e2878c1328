//! The dependencies of the reconciler.

use std::sync::Arc;

use grove_api_types::configuration::{NativeGangs, Schedulers};
use grove_controller::children::{ChildKinds, ChildTracker, OwnerKind};
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::clock::Clock;

use crate::informers::GangCaches;
use crate::pod_groups::{self, GangOwner};

/// The dependencies of the reconciler. Only `reconcile`, `triggers` and `observe` see it; `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: GangCaches,
    /// The `PodGroup`s of the gangs.
    pub(crate) children: ChildTracker<GangOwner>,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
    /// The schedulers of the configuration.
    pub(crate) schedulers: Schedulers,
    /// Whether the configuration allows the workload API.
    pub(crate) native_gangs: NativeGangs,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name. Of `kinds`, only those that the
    /// configuration allows are watched.
    pub(crate) fn new(
        manager: &Manager,
        caches: GangCaches,
        controller: &'static str,
        kinds: &ChildKinds<GangOwner>,
    ) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        let schedulers = manager.config().schedulers.clone();
        let kinds = pod_groups::start_informers(kinds, &schedulers, &caches.informers);
        let status_writer = StatusWriter::new(executor.clone());
        let context = Arc::new(Self {
            children: ChildTracker::new(kinds, &caches.informers, &caches.gangs),
            caches,
            status_writer: status_writer.with_ownership(GangOwner::STATUS_OWNERSHIP),
            executor,
            clock: manager.clock(),
            schedulers,
            native_gangs: manager.config().native_gangs,
        });
        context.children.add_state_metrics(manager.state_metrics(), controller);
        context.caches.orphan_deletions.add_state_metrics(manager.state_metrics(), controller);
        let statuses: [NamedCount<Self>; 1] = [("statuses", |context| context.status_writer.statuses())];
        manager.state_metrics().add_all(controller, &context, &statuses);
        context
    }
}
