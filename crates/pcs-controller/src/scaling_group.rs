//! The `PodCliqueScalingGroup` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a group. [`reconcile()`] takes a snapshot of the group, its set and its cliques from the
//! caches (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the new status.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::predicates::metadata_or_generation_changed;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::{Trigger, owners_after_namespace_termination};

use self::triggers::{groups_of_gang, groups_of_set, was_created_or_deleted_or_has_other_pod_group};
use crate::context::Context;
use crate::informers::PcsCaches;

mod desired;
mod observe;
mod observed;
mod plan;
mod recorded_scale;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;
pub(crate) use self::observed::GroupOwner;

/// The name of the controller in logs, metrics and events, which upstream defines.
pub(crate) const CONTROLLER: &str = "podcliquescalinggroup-controller";

/// Reconciles groups until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context<GroupOwner>>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique_scaling_group.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a group, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the group itself;
/// - a change of its set in more than the status, because the cliques follow the template;
/// - a creation or a deletion of a gang that its cliques belong to, or another `PodGroup` in the annotations of the gang, because a
///   clique waits for its gang and names its `PodGroup`;
/// - a change or a deletion of a child of any kind in [`desired::CHILD_KINDS`]. It enqueues the current and the previous
///   controller, and the groups that wait for the name of the child. A creation and a change of only the status trigger a
///   status update;
/// - a relist of a child kind, because a child that was created and deleted before it has no delta;
/// - the deletion of a child anywhere in the namespace, if a quota rejected creates of the group: it may release quota;
/// - a compute domain of its replica of the set that appeared, disappeared, or changed in what a replica waits for;
/// - the creation of a `ResourceClaimTemplate` from which its set or a scaling group of its set creates claims;
/// - the end of the termination of its namespace, because nothing was created during it.
fn triggers(ctx: &Context<GroupOwner>) -> ControllerBuilder<PodCliqueScalingGroup> {
    let PcsCaches { sets, groups, gangs, terminating_namespaces, .. } = &ctx.caches;
    let (all_groups, all_sets) = (groups.clone(), sets.clone());
    let sets = sets.subscribe().filter(|delta| std::future::ready(metadata_or_generation_changed(delta)));
    let gangs =
        gangs.subscribe().filter(|delta| std::future::ready(was_created_or_deleted_or_has_other_pod_group(delta)));
    ControllerBuilder::new(CONTROLLER, groups.clone(), groups.subscribe())
        .watches(sets.flat_map(move |delta| stream::iter(groups_of_set(&all_groups, &delta)).map(Trigger::Reconcile)))
        .watches(gangs.flat_map(move |delta| stream::iter(groups_of_gang(&all_sets, &delta)).map(Trigger::Reconcile)))
        .watches(ctx.caches.compute_domains.changed_groups(groups))
        .watches(ctx.caches.resource_claims.groups_of_created(&ctx.caches.sets, groups))
        .watches(ctx.caches.resource_claims.access.owners_after_change(groups))
        .owns(&ctx.children)
        .retry_on(owners_after_namespace_termination(groups, terminating_namespaces))
}

async fn reconcile(
    group: Arc<PodCliqueScalingGroup>,
    ctx: Arc<Context<GroupOwner>>,
) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let mut observed = observe::observe(&ctx, &group);
    let templates = observed.templates_to_read();
    let read_errors =
        ctx.caches.resource_claims.read_templates(&ctx.client, templates, &mut observed.claims.templates).await;
    let plan = plan::plan(&observed, now);
    if let Some(set) = observed.set.as_ref().filter(|_| !observed.undecided_gangs.is_empty()) {
        ctx.caches.incarnations.request_decision(set);
    }
    let result = ctx.children.execute(&ctx.executor, &group, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.is_terminating() };
    let requeue = ctx.status_writer.write_after(&*group, executed, status).await?;
    read_errors.into_error(requeue).map_or(Ok(requeue), Err)
}

/// Drops the in-memory state of a deleted group, and plans the deletion of its cliques, unless its deletion orphaned them.
fn cleanup_plan(ctx: &Context<GroupOwner>, deleted: &PodCliqueScalingGroup) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    if ctx.caches.orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    plan::delete_children(deleted, &ctx.children.children(deleted))
}
