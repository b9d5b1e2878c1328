//! The `PodGang` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a gang. [`reconcile()`] takes a snapshot of the gang, its cliques and its `PodGroup` from the caches
//! (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the conditions about scheduling.

use std::sync::Arc;

use futures::StreamExt;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::owners_after_namespace_termination;

use self::triggers::{gang_of_clique, scaled_gangs};
use crate::context::Context;
use crate::informers::GangCaches;

mod desired;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;

/// The name of the controller in logs, metrics and events.
pub(crate) const CONTROLLER: &str = "podgang-controller";

/// Reconciles gangs until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_gang.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a gang, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the gang itself;
/// - a change of the number of desired pods of a clique of the gang. A change of the number of scheduled pods triggers a status update;
/// - the base gang of a scaled gang has become scheduled, if the `PodGroup` of the scaled gang waits for that;
/// - a change or a deletion of its `PodGroup`, or of the object that has the name of its `PodGroup`. A change of only the status triggers
///   a status update;
/// - a relist of `PodGroup`s, because one that was created and deleted before it has no delta;
/// - the deletion of a `PodGroup` anywhere in the namespace, if a quota rejected the one of the gang;
/// - the end of the termination of its namespace, because nothing was created during it.
fn triggers(ctx: &Context) -> ControllerBuilder<PodGang> {
    let GangCaches { gangs, cliques, terminating_namespaces, .. } = &ctx.caches;
    let gangs_of_cliques = cliques.subscribe().filter_map(|delta| std::future::ready(gang_of_clique(&delta)));
    ControllerBuilder::new(CONTROLLER, gangs.clone(), gangs.subscribe())
        .watches(gangs_of_cliques)
        .watches(scaled_gangs(gangs, cliques))
        .owns(&ctx.children)
        .retry_on(owners_after_namespace_termination(gangs, terminating_namespaces))
}

async fn reconcile(gang: Arc<PodGang>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &gang);
    let plan = plan::plan(&observed, now);
    let result = ctx.children.execute(&ctx.executor, &gang, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.is_terminating() };
    ctx.status_writer.write_after(&*gang, executed, status).await
}

/// Drops the in-memory state of a deleted gang, and plans the deletion of its `PodGroup`, unless its deletion orphaned
/// it.
fn cleanup_plan(ctx: &Context, deleted: &PodGang) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    if ctx.caches.orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    CHILD_KINDS.delete_dependents(deleted, &ctx.children.children(deleted))
}
