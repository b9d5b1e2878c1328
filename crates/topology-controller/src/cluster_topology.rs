//! The reconciler of `ClusterTopology`s; start here.
//!
//! [`TopologyReconciler`] lists what enqueues a topology, and the steps of a reconcile: it takes a snapshot of the topology, the sets that refer to
//! it, the nodes and the topology objects of schedulers (`observe`), computes the next writes (`plan`), and after their execution the status
//! (`status`). [`crate::default_topology`] creates the configured default topology.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyStatus};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use self::live_reads::live_references;
use self::observed::Observed;
use self::triggers::{all_after_node_change, topologies_of_clique, topologies_of_set};
use crate::informers::TopologyCaches;
use crate::scheduler_topologies::{TopologyOwner, start_informers};

mod live_reads;
mod observe;
mod observed;
mod plan;
pub(crate) mod startup_check;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use crate::scheduler_topologies::CHILD_KINDS_OF_CLUSTER_TOPOLOGIES as CHILD_KINDS;

pub(crate) type Context = reconciler::Context<TopologyReconciler>;

/// Topologies are few.
const CONCURRENCY: u16 = 2;
/// Counts of sets and nodes change often in a busy cluster, and no controller waits for them. The first change is written at once.
const MIN_INTERVAL: Duration = Duration::from_secs(15);

/// The context of the reconciler.
pub(crate) fn context(manager: &Manager, caches: TopologyCaches) -> Arc<Context> {
    Context::with_status_writer(manager, caches, |writer| writer.with_min_interval(MIN_INTERVAL))
}

/// Reconciles topologies.
pub(crate) struct TopologyReconciler;

impl Reconciler for TopologyReconciler {
    type Owner = TopologyOwner<ClusterTopology>;
    type Caches = TopologyCaches;
    type Snapshot = Observed;

    const CONTROLLER: &'static str = "clustertopology-controller";

    fn concurrency(_config: &OperatorConfiguration) -> u16 {
        CONCURRENCY
    }

    fn informers(caches: &TopologyCaches) -> (&Cache<ClusterTopology>, &SharedInformerFactory) {
        (&caches.topologies, &caches.informers)
    }

    fn child_kinds(manager: &Manager, caches: &TopologyCaches) -> ChildKinds<Self::Owner> {
        let config = manager.config();
        start_informers(CHILD_KINDS, &config.schedulers, config.topology.enabled, &caches.informers)
    }

    fn orphan_deletions(caches: &TopologyCaches) -> Option<&OrphanDeletions> {
        Some(&caches.orphan_deletions)
    }

    /// What triggers a reconcile of a topology, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the topology itself;
    /// - a set that begins or ceases to refer to it, or uses other domains, with low priority;
    /// - a clique of such a set: its first pod was scheduled, or it has no scheduled pods any more, with low priority;
    /// - a node: it was created or deleted, or its labels have other keys: all topologies, with low priority;
    /// - a change or a deletion of its topology object of a scheduler.
    fn triggers(ctx: &Context, controller: ControllerBuilder<ClusterTopology>) -> ControllerBuilder<ClusterTopology> {
        let TopologyCaches { topologies, sets, cliques, nodes, .. } = &ctx.caches;
        let default_name: Arc<str> = ctx.config().topology.name.as_str().into();
        controller
            .watches(topologies_of_set(sets, Arc::clone(&default_name)))
            .watches(topologies_of_clique(cliques, sets, default_name))
            .watches(all_after_node_change(nodes, topologies))
    }

    fn observe(ctx: &Context, topology: &ClusterTopology, _now: Timestamp) -> Observed {
        observe::observe(ctx, topology)
    }

    /// Before the finalizer of a topology may be removed, lists the sets that refer to it.
    async fn dereference(ctx: &Context, mut observed: Observed, _now: Timestamp) -> Result<Observed, ReconcileError> {
        let is_released = observed.has_finalizer() && !observed.is_enabled_default();
        if observed.is_terminating() && is_released && observed.referring_sets.is_empty() {
            let name = observed.topology.name_any();
            observed.live_references = live_references(&ctx.client(), &name, &observed.configuration.name).await;
        }
        Ok(observed)
    }

    fn plan(observed: &Observed, _now: Timestamp) -> Plan {
        plan::plan(observed)
    }

    fn status(
        observed: &Observed,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (ClusterTopologyStatus, StatusChange) {
        let status = status::status(observed, plan, result, now);
        let change = status::status_change(observed, &status);
        (status, change)
    }
}

impl Snapshot for Observed {
    /// The status of a terminating topology reports what its deletion waits for, unless the deletion has just ended.
    fn omits_status(&self) -> bool {
        self.may_be_deleted()
    }

    fn pending_creates(&self) -> Cow<'_, PendingCreates> {
        Cow::Borrowed(&self.pending_creates)
    }

    fn backed_off(&self) -> Cow<'_, BackedOffCreates> {
        Cow::Borrowed(&self.backed_off)
    }
}
