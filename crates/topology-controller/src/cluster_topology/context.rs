//! The dependencies of the reconciler of `ClusterTopology`s.

use std::sync::Arc;
use std::time::Duration;

use grove_api_types::configuration::{Schedulers, TopologyAwareScheduling};
use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::children::ChildTracker;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::clock::Clock;
use kube::Client;

use crate::informers::TopologyCaches;
use crate::scheduler_topologies::{CHILD_KINDS_OF_CLUSTER_TOPOLOGIES, TopologyOwner, start_informers};

/// Counts of sets and nodes change often in a busy cluster, and no controller waits for them. The first change is written at once.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(15);

/// The dependencies of the reconciler. `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: TopologyCaches,
    /// The topology objects of the topologies.
    pub(crate) children: ChildTracker<TopologyOwner<ClusterTopology>>,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
    /// For live LISTs.
    pub(crate) client: Client,
    pub(crate) configuration: TopologyAwareScheduling,
    pub(crate) schedulers: Schedulers,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name.
    pub(crate) fn new(manager: &Manager, caches: TopologyCaches, controller: &'static str) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        let (configuration, schedulers) = (manager.config().topology.clone(), manager.config().schedulers.clone());
        let kinds = CHILD_KINDS_OF_CLUSTER_TOPOLOGIES;
        let kinds = start_informers(kinds, &schedulers, configuration.enabled, &caches.informers);
        let context = Arc::new(Self {
            children: ChildTracker::new(kinds, &caches.informers, &caches.topologies),
            status_writer: StatusWriter::new(executor.clone()).with_min_interval(MIN_INTERVAL),
            executor,
            clock: manager.clock(),
            client: manager.client(),
            configuration,
            schedulers,
            caches,
        });
        context.children.add_state_metrics(manager.state_metrics(), controller);
        context.caches.orphan_deletions.add_state_metrics(manager.state_metrics(), controller);
        let statuses: [NamedCount<Self>; 1] = [("statuses", |context| context.status_writer.statuses())];
        manager.state_metrics().add_all(controller, &context, &statuses);
        context
    }

    /// The name of the configured default topology.
    pub(crate) fn default_name(&self) -> Arc<str> {
        self.configuration.name.as_str().into()
    }
}
