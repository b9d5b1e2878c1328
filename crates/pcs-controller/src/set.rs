//! The `PodCliqueSet` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a set. [`reconcile()`] takes a snapshot of the set and its children from the caches
//! (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the new status.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::{Trigger, owners_after_namespace_termination};

use crate::context::Context;
use crate::incarnations::live_reads;
use crate::resource_claims::sets_of_deleted_cliques;
use crate::topologies;

mod desired;
mod gang_topologies;
mod observe;
mod observed;
mod plan;
mod pod_groups;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;
use self::observed::Observed;
pub(crate) use self::observed::SetOwner;

/// The name of the controller in logs, metrics and events, which upstream defines.
pub(crate) const CONTROLLER: &str = "podcliqueset-controller";

/// Reconciles sets until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context<SetOwner>>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique_set.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a set, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the set itself;
/// - a change or a deletion of a child of any kind in [`desired::CHILD_KINDS`]. It enqueues the current and the previous
///   controller, and the sets that wait for the name of the child. A creation, a change of only the status, and a change of
///   only the pod references of a gang trigger a status update;
/// - a relist of a child kind, because a child that was created and deleted before it has no delta;
/// - the deletion of a child anywhere in the namespace, if a quota rejected creates of the set: it may release quota;
/// - a creation, a deletion or a change of the levels of the topology that the set refers to;
/// - a compute domain of the set that appeared, disappeared, or changed in what a replica waits for;
/// - the creation of a `ResourceClaimTemplate` from which the set creates claims;
/// - the deletion of a clique of a scaling group with claims: a claim of a removed replica may be deleted then;
/// - the end of the termination of its namespace, because nothing was created during it;
/// - a scaling group that waits for the `PodGroup` of a gang, because only the set decides it;
/// - another number of desired pods of a clique whose gang has a `PodGroup`, and another number of its scheduled pods if the decision about
///   the `PodGroup` of its gang depends on the bound pods.
fn triggers(ctx: &Context<SetOwner>) -> ControllerBuilder<PodCliqueSet> {
    let sets = &ctx.caches.sets;
    let requested = stream::iter(ctx.caches.incarnations.requested_decisions()).flatten();
    ControllerBuilder::new(CONTROLLER, sets.clone(), sets.subscribe())
        .owns(&ctx.children)
        .watches(requested.map(Trigger::Reconcile))
        .watches(ctx.caches.topologies.sets_of_changed(sets))
        .watches(ctx.caches.compute_domains.changed_sets())
        .watches(ctx.caches.resource_claims.sets_of_created(sets))
        .watches(sets_of_deleted_cliques(&ctx.caches.cliques))
        .watches(ctx.caches.incarnations.sets_of_changed_cliques(sets, &ctx.caches.cliques))
        .watches(ctx.caches.resource_claims.access.owners_after_change(sets))
        .retry_on(owners_after_namespace_termination(sets, &ctx.caches.terminating_namespaces))
}

async fn reconcile(set: Arc<PodCliqueSet>, ctx: Arc<Context<SetOwner>>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let mut observed = observe::observe(&ctx, &set);
    confirm_topology(&ctx, &mut observed).await?;
    observe::decide_pod_groups(&ctx, &mut observed, now);
    live_reads::close_decisions(&ctx.client, &set, &mut observed.pod_groups, now).await?;
    observed.retain_topologies_of_bound_gangs();
    let templates = observed.templates_to_read();
    let read_errors =
        ctx.caches.resource_claims.read_templates(&ctx.client, templates, &mut observed.claims.templates).await;
    observe::record_pod_groups(&ctx, &observed);
    let plan = plan::plan(&observed, now);
    let result = ctx.children.execute(&ctx.executor, &set, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.is_terminating() };
    let requeue = ctx.status_writer.write_after(&*set, executed, status).await?;
    read_errors.into_error(requeue).map_or(Ok(requeue), Err)
}

/// A set may be reconciled before the cache has its topology. Before a gang is created without constraints or loses them, a live GET
/// confirms that the topology does not exist.
async fn confirm_topology(ctx: &Context<SetOwner>, observed: &mut Observed) -> Result<(), ReconcileError> {
    let Some(name) = observed.topology_to_confirm() else { return Ok(()) };
    match topologies::get_live(&ctx.client, &name).await {
        Ok(Some(topology)) => {
            observed.topologies.found(&observed.set, topology, observed.children.of_kind::<PodGang>());
        }
        Ok(None) => {}
        Err(error @ (kube::Error::SerdeError(_) | kube::Error::Api(_))) if !is_temporary(&error) => {
            tracing::warn!(topology = name, %error, "cannot read the topology; the gangs of the set have no constraints");
        }
        Err(error) => return Err(ReconcileError::read(name, &error)),
    }
    Ok(())
}

/// Whether the API server may answer a repeated request.
fn is_temporary(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code >= 500 || status.code == 429)
}

/// Drops the in-memory state of a deleted set, and plans the deletion of its children, unless its deletion orphaned them.
fn cleanup_plan(ctx: &Context<SetOwner>, deleted: &PodCliqueSet) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    ctx.caches.incarnations.forget(deleted);
    if ctx.caches.orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    plan::delete_children(deleted, &ctx.children.children(deleted))
}
