//! The `PodCliqueScalingGroup` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a group. [`reconcile()`] takes a snapshot of the group, its set and its cliques from the
//! caches (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the new status.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use grove_controller::controller::{ControllerBuilder, Requeue, Trigger};
use grove_controller::controllers::Controllers;
use grove_controller::plan::Plan;
use grove_controller::predicates::{metadata_or_generation_changed, needs_reconcile};

use self::triggers::{groups_of_gang, groups_of_set, was_created_or_deleted};
use crate::context::Context;
use crate::error::Error;
use crate::informers::GroupDeltas;
use crate::triggers::{enqueue_all_on_relist, enqueue_owners};

mod desired;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

/// The name of the controller in logs, metrics and events, which upstream defines.
pub(crate) const CONTROLLER: &str = "podcliquescalinggroup-controller";

/// Reconciles groups until the service is stopped.
pub(crate) async fn run(service: &Controllers, ctx: Arc<Context>, deltas: GroupDeltas) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx, deltas)
        .concurrency(service.config().controllers.pod_clique_scaling_group.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(service, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a group:
/// - a change of the group itself;
/// - a change of its set in more than the status, because the cliques follow the template;
/// - a creation or a deletion of a gang that its cliques belong to, because a clique waits for its gang;
/// - a change or a deletion of a clique. It enqueues the current and the previous controller, and the groups that wait for
///   the name of the clique. A creation and a change of only the status trigger a status update;
/// - a relist of cliques, because a clique that was created and deleted before it has no delta;
/// - the deletion of a clique anywhere in the namespace, if creates of the group were rejected: it may release quota.
fn triggers(ctx: &Context, deltas: GroupDeltas) -> ControllerBuilder<PodCliqueScalingGroup> {
    let GroupDeltas { sets, groups, cliques, gangs } = deltas;
    let (all_groups, all_sets) = (ctx.caches.groups.clone(), ctx.caches.sets.clone());
    let creates = ctx.create_state(&ctx.name_waiters.groups, &ctx.create_backoffs.groups);
    let sets = sets.filter(|delta| std::future::ready(metadata_or_generation_changed(delta)));
    let gangs = gangs.filter(|delta| std::future::ready(was_created_or_deleted(delta)));
    ControllerBuilder::new(CONTROLLER, ctx.caches.groups.clone(), groups)
        .watches(sets.flat_map(move |delta| stream::iter(groups_of_set(&all_groups, &delta)).map(Trigger::Reconcile)))
        .watches(gangs.flat_map(move |delta| stream::iter(groups_of_gang(&all_sets, &delta)).map(Trigger::Reconcile)))
        .watches(enqueue_owners(cliques, needs_reconcile, &creates))
        .watches(enqueue_all_on_relist(&ctx.caches.groups, vec![ctx.caches.cliques.relists()]))
}

async fn reconcile(group: Arc<PodCliqueScalingGroup>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &group);
    let plan = plan::plan(&observed, now);
    let result = ctx.execute(&*group, &plan).await;
    ctx.create_backoffs.groups.record(&*group, &observed.backed_off, &result);
    let mut status_delay = None;
    let is_stale = !observed.pending_creates.is_empty() || result.has_pending_watch_events();
    if !observed.is_terminating() && !is_stale {
        let status = status::status(&observed, &plan, &result, now);
        let change = status::status_change(&observed, &status);
        status_delay = ctx.write_status(&*group, group.status.as_ref(), &status, change).await?;
    }
    result.into_result().map_err(Error::Execute)?;
    Ok(Requeue::after(&plan, status_delay))
}

/// Drops the in-memory state of a deleted group, and plans the deletion of its cliques.
fn cleanup_plan(ctx: &Context, deleted: &PodCliqueScalingGroup) -> Plan {
    ctx.create_backoffs.groups.forget(deleted);
    ctx.expectations.forget(deleted);
    ctx.name_waiters.groups.forget(deleted);
    ctx.status_throttle.forget(deleted);
    plan::delete_children(deleted, &observe::children(&ctx.caches, deleted))
}
