//! The `PodGang` reconciler; start here.
//!
//! The reconciler of sets creates and deletes gangs; this one writes only their status. [`triggers()`] lists what enqueues a
//! gang. [`reconcile()`] takes a snapshot of the gang and its cliques from the caches (`observe`) and writes the new status.
//! Gangs have a controller of their own, so that the gangs of one set are queued and written separately.

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
use grove_controller::triggers::Trigger;

use self::triggers::gang_of_clique;
use crate::context::Context;

mod desired;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;
use self::observed::GangOwner;

/// The name of the controller in logs, metrics and events.
pub(crate) const CONTROLLER: &str = "podgang-status-controller";

/// Reconciles gangs until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context<GangOwner>>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_gang.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a gang, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the gang itself;
/// - a change of a clique whose pods belong to the gang, which triggers a status update.
fn triggers(ctx: &Context<GangOwner>) -> ControllerBuilder<PodGang> {
    let (gangs, cliques) = (&ctx.caches.gangs, ctx.caches.cliques.subscribe());
    ControllerBuilder::new(CONTROLLER, gangs.clone(), gangs.subscribe())
        .watches(cliques.filter_map(|delta| std::future::ready(gang_of_clique(&delta).map(Trigger::StatusOnly))))
}

async fn reconcile(gang: Arc<PodGang>, ctx: Arc<Context<GangOwner>>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &gang);
    let plan = plan::plan(&observed, now);
    let result = ctx.executor.execute(&*gang, &plan).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let is_terminating = observed.is_terminating();
    let executed = ExecutedPlan { plan: &plan, result, pending_creates: None, is_terminating };
    ctx.status_writer.write_after(&*gang, executed, status).await
}

/// Drops the in-memory state of a deleted gang, which has no children.
fn cleanup_plan(ctx: &Context<GangOwner>, deleted: &PodGang) -> Plan {
    ctx.status_writer.forget(deleted);
    Plan::new()
}
