//! The dependencies of the reconciler of `ClusterTopologyBinding`s.

use std::sync::Arc;

use grove_api_types::configuration::{Schedulers, TopologyAwareScheduling};
use grove_api_types::v1alpha1::ClusterTopologyBinding;
use grove_controller::children::ChildTracker;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::clock::Clock;

use crate::informers::TopologyCaches;
use crate::scheduler_topologies::{CHILD_KINDS_OF_BINDINGS, TopologyOwner, start_informers};

/// The dependencies of the reconciler. `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: TopologyCaches,
    /// The topology objects of the bindings.
    pub(crate) children: ChildTracker<TopologyOwner<ClusterTopologyBinding>>,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
    pub(crate) configuration: TopologyAwareScheduling,
    pub(crate) schedulers: Schedulers,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name.
    pub(crate) fn new(manager: &Manager, caches: TopologyCaches, controller: &'static str) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        let (configuration, schedulers) = (manager.config().topology.clone(), manager.config().schedulers.clone());
        let kinds = CHILD_KINDS_OF_BINDINGS;
        let kinds = start_informers(kinds, &schedulers, configuration.enabled, &caches.informers);
        let context = Arc::new(Self {
            children: ChildTracker::new(kinds, &caches.informers, &caches.bindings),
            status_writer: StatusWriter::new(executor.clone()),
            executor,
            clock: manager.clock(),
            configuration,
            schedulers,
            caches,
        });
        context.children.add_state_metrics(manager.state_metrics(), controller);
        context.caches.binding_orphan_deletions.add_state_metrics(manager.state_metrics(), controller);
        let statuses: [NamedCount<Self>; 1] = [("statuses", |context| context.status_writer.statuses())];
        manager.state_metrics().add_all(controller, &context, &statuses);
        context
    }
}
