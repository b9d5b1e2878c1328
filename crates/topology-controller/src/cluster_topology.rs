//! The `ClusterTopology` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a topology. [`reconcile()`] takes a snapshot of the topology, the sets that refer to it, the nodes and
//! the topology objects of schedulers (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the
//! status. [`crate::default_topology`] creates the configured default topology.

use std::sync::Arc;

use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;

use self::context::Context;
use self::triggers::{all_after_node_change, topologies_of_clique, topologies_of_set};

pub(crate) mod context;
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

/// The name of the controller in logs, metrics and events.
pub(crate) const CONTROLLER: &str = "clustertopology-controller";
/// Topologies are few.
const CONCURRENCY: u16 = 2;

/// Reconciles topologies until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(CONCURRENCY)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a topology, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the topology itself;
/// - a set that begins or ceases to refer to it, or uses other domains, for a status update;
/// - a clique of such a set: its first pod was scheduled, or it has no scheduled pods any more, for a status update;
/// - a node: it was created or deleted, or its labels have other keys, for a status update of all topologies;
/// - a change or a deletion of its topology object of a scheduler, or of the object that has the name of it.
///
/// A status update also executes the plan: the end of a reference may end the deletion of a topology, or allow the configured levels of the
/// default topology.
fn triggers(ctx: &Arc<Context>) -> ControllerBuilder<ClusterTopology> {
    let caches = &ctx.caches;
    ControllerBuilder::new(CONTROLLER, caches.topologies.clone(), caches.topologies.subscribe())
        .watches(topologies_of_set(&caches.sets, ctx.default_name()))
        .watches(topologies_of_clique(&caches.cliques, &caches.sets, ctx.default_name()))
        .watches(all_after_node_change(&caches.nodes, &caches.topologies))
        .owns(&ctx.children)
}

async fn reconcile(topology: Arc<ClusterTopology>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &topology).await;
    let plan = plan::plan(&observed, now);
    let result = ctx.children.execute(&ctx.executor, &topology, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    // The status of a terminating topology reports what its deletion waits for, unless the deletion has just ended.
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.may_be_deleted() };
    ctx.status_writer.write_after(&*topology, executed, status).await
}

/// Drops the in-memory state of a deleted topology, and plans the deletion of its topology objects, unless its deletion orphaned them.
fn cleanup_plan(ctx: &Context, deleted: &ClusterTopology) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    if ctx.caches.orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    CHILD_KINDS.delete_dependents(deleted, &ctx.children.children(deleted))
}
