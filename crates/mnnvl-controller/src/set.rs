//! The `PodCliqueSet` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a set. [`reconcile()`] takes a snapshot of the set and its domains from the caches (`observe`),
//! computes the next writes from it (`plan`), lets the executor apply them, and writes the condition about the domains. The
//! reconciler of domains deletes them. The configuration does not matter: the annotations of a set decide, so its domains stay when automatic
//! MNNVL is disabled.

use std::sync::Arc;

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::owners_after_namespace_termination;

use crate::context::SetContext;

mod desired;
mod observe;
mod observed;
mod plan;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;

/// The name of the controller in logs, metrics and events.
pub(crate) const CONTROLLER: &str = "computedomain-controller";

/// Reconciles sets until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<SetContext>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique_set.concurrent_syncs)
        .on_deleted(move |deleted| forget(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a set, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the set itself;
/// - a change or a deletion of a domain of the set, or of the object that has the name of one. A creation and a change of only the status
///   trigger a status update;
/// - a relist of domains, because one that was created and deleted before it has no delta;
/// - the deletion of a domain anywhere in the namespace, if a quota rejected one of the set;
/// - the first event of its namespace, or the end of its termination, because nothing was created before.
fn triggers(ctx: &SetContext) -> ControllerBuilder<PodCliqueSet> {
    let sets = &ctx.caches.sets;
    ControllerBuilder::new(CONTROLLER, sets.clone(), sets.subscribe())
        .owns(&ctx.children)
        .retry_on(owners_after_namespace_termination(sets, &ctx.caches.namespaces))
}

async fn reconcile(set: Arc<PodCliqueSet>, ctx: Arc<SetContext>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &set);
    let plan = plan::plan(&observed, now);
    let result = ctx.children.execute(&ctx.executor, &set, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.is_terminating() };
    ctx.status_writer.write_after(&*set, executed, status).await
}

/// Drops the in-memory state of a deleted set. It plans nothing: the reconciler of domains deletes its domains.
fn forget(ctx: &SetContext, deleted: &PodCliqueSet) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    Plan::new()
}
