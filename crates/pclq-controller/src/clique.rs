//! The `PodClique` reconciler; start here.
//!
//! A clique is self-contained: its claims, its pods, their number and their gang follow from the object itself, never from its set.
//! [`triggers()`] lists what enqueues a clique. [`reconcile()`] takes a snapshot of the clique, its pods, its claims and its gang from the
//! caches (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the new status. The plan of the
//! claims is executed first, so that the plan of the pods contains exactly the pods with claims that exist.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::{Trigger, enqueue_all_on_relist, owners_after_namespace_termination};
use kube::ResourceExt;

use self::observed::Observed;
use self::template_reads::read_templates;
use self::triggers::{clique_of_unreadable_pod, cliques_of_gang, cliques_of_pod};
use crate::claims::{cliques_of_claim, cliques_of_template};
use crate::context::Context;
use crate::gang_pods::PODS_BY_GANG;
use crate::informers::PclqCaches;

mod desired;
mod observe;
mod observed;
mod plan;
mod stage;
mod status;
mod template_reads;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CLAIM_KINDS;

/// The name of the controller in logs, metrics and events, which upstream defines.
pub(crate) const CONTROLLER: &str = "podclique-controller";

/// The label of the maps about the claims of cliques in metrics, in place of the controller.
const CLAIMS: &str = "podclique-claims";

/// Reconciles cliques until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context>) {
    manager.state_metrics().add_all(CONTROLLER, &ctx, &STATE_MAPS);
    ctx.caches.orphan_deletions.add_state_metrics(manager.state_metrics(), CONTROLLER);
    ctx.claims.add_state_metrics(manager.state_metrics(), CLAIMS);
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique.concurrent_syncs)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a clique, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the clique itself;
/// - a change or a deletion of a pod. It enqueues the current and the previous controller, and for a pod without controller
///   the clique that its labels name. A creation, and progress of a live pod, trigger a status update, unless the gang
///   of the pod gates cliques and the pod has just been scheduled;
/// - a pod that becomes unreadable, is repaired or is deleted. It enqueues the controller, and for a pod without controller the clique
///   that its labels name;
/// - a creation or a deletion of a gang, or a change of its pod groups. It enqueues the cliques of those pod groups (for a change,
///   only for a status update);
/// - a change after which the gang that gates its pods is scheduled, is no longer scheduled, exists or does not exist (see
///   `gating_gangs`);
/// - a relist of the pods or of the claims, for a status update, because deltas may have been missed;
/// - a change or a deletion of a claim of the clique, or of the object that has the name of one. A creation and a change of only the
///   status trigger a status update;
/// - a claim of its set or of its scaling group that its pods use and that appears, disappears, is terminating or has another controller;
/// - the creation of a template of its claims;
/// - the deletion of any pod of the namespace, readable or not, if creates of the clique were rejected: it may release quota. Each deletion
///   enqueues only the few cliques that wait longest;
/// - the end of the termination of its namespace, because no pods were created during it.
fn triggers(ctx: &Context) -> ControllerBuilder<PodClique> {
    let PclqCaches { cliques, pods, gangs, claims, claim_templates, template_access, terminating_namespaces, .. } =
        &ctx.caches;
    let (creates, creates_of_unreadable, all_pods) = (ctx.creates.clone(), ctx.creates.clone(), pods.clone());
    let [for_pods, for_gangs, for_cliques, for_claims, for_templates] = [(); 5].map(|()| cliques.clone());
    let all_gangs = gangs.clone();
    let [gating_gangs, gating_gangs_of_cliques] = [(); 2].map(|()| ctx.gating_gangs.clone());
    ControllerBuilder::new(CONTROLLER, cliques.clone(), cliques.subscribe())
        .watches(pods.subscribe().flat_map(move |delta| {
            let retries = creates.observe_delta(&delta).into_iter().map(Trigger::Retry);
            stream::iter(retries.chain(cliques_of_pod(&for_pods, &delta)))
        }))
        .watches(pods.subscribe_unreadable().flat_map(move |pod| {
            let retries = creates_of_unreadable.observe_unreadable(&all_pods, &pod).into_iter().map(Trigger::Retry);
            let clique = clique_of_unreadable_pod(&pod.metadata).map(Trigger::Reconcile);
            stream::iter(retries.chain(clique))
        }))
        .watches(gangs.subscribe().flat_map(move |delta| {
            let scaled = gating_gangs.observe_gang(&for_gangs, &all_gangs, &delta).into_iter().map(Trigger::Reconcile);
            stream::iter(scaled.chain(cliques_of_gang(&delta)))
        }))
        .watches(cliques.subscribe().flat_map(move |delta| {
            stream::iter(gating_gangs_of_cliques.observe_clique(&for_cliques, &delta)).map(Trigger::Reconcile)
        }))
        .owns(&ctx.claims)
        .watches(claims.subscribe().flat_map(move |delta| stream::iter(cliques_of_claim(&for_claims, &delta))))
        .watches(
            claim_templates
                .subscribe()
                .flat_map(move |delta| stream::iter(cliques_of_template(&for_templates, &delta))),
        )
        .watches(template_access.owners_after_change(cliques).map(Trigger::Reconcile))
        .watches(enqueue_all_on_relist(cliques, vec![pods.relists()]))
        .retry_on(owners_after_namespace_termination(cliques, terminating_namespaces))
}

async fn reconcile(clique: Arc<PodClique>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let mut observed = observe::observe(&ctx, &clique);
    let read_errors = read_templates(&ctx.client, &mut observed).await;
    let claims_plan = plan::claims(&observed);
    let claims_result = ctx.claims.execute(&ctx.executor, &clique, &claims_plan, &observed.claims.backed_off).await;
    observed.claims.record_created(&claims_result);
    let pods_plan = plan::pods(&observed, now);
    let pods_result = execute_pods(&ctx, &clique, &observed, &pods_plan).await;
    let plan = plan::merged(claims_plan, pods_plan);
    let result = ExecutionResult { steps: claims_result.steps.into_iter().chain(pods_result.steps).collect() };
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = observed.all_pending_creates();
    let (pending_creates, is_terminating) = (Some(&pending_creates), observed.is_terminating());
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating };
    let requeue = ctx.status_writer.write_after(&*clique, executed, status).await?;
    read_errors.into_error(requeue).map_or(Ok(requeue), Err)
}

/// Executes the plan of the pods, and records its creates.
async fn execute_pods(ctx: &Context, clique: &PodClique, observed: &Observed, plan: &Plan) -> ExecutionResult {
    ctx.write_history.record_created_names(observed.uid(), plan);
    ctx.replacements.record_creation_times(observed.uid(), plan);
    ctx.creates.expect_creations(clique, plan, |_| observed.relists);
    let result = ctx.executor.execute(clique, plan).await;
    ctx.creates.record(clique, &observed.backed_off, &result);
    ctx.write_history.record_conflicts(observed.uid(), &result);
    ctx.write_history.record_last_create(observed.uid(), plan, &result);
    result
}

/// The maps of the context with entries that end with their clique at the latest (see [`cleanup_plan`]), each with a function that
/// counts its entries. An orphan deletion is remembered longer.
const STATE_MAPS: [NamedCount<Context>; 10] = [
    ("rejected_creates", |ctx| ctx.creates.backoff.len()),
    ("expectations", |ctx| ctx.creates.expectations.len()),
    ("write_history", |ctx| ctx.write_history.len()),
    ("replacement_backoff", |ctx| ctx.replacements.len()),
    ("statuses", |ctx| ctx.status_writer.statuses()),
    ("tombstones", |ctx| ctx.caches.tombstones.len()),
    ("ended_pods", |ctx| ctx.caches.tombstones.ended_pods()),
    ("gang_pods", |ctx| ctx.caches.cliques.sum_values(&PODS_BY_GANG)),
    ("gating_gangs", |ctx| ctx.gating_gangs.len()),
    ("retired_claims", |ctx| ctx.retired_claims.len()),
];

/// Drops the in-memory state of a deleted clique, and plans the deletion of its pods and claims, unless its deletion orphaned them.
fn cleanup_plan(ctx: &Context, deleted: &PodClique) -> Plan {
    let uid = deleted.uid().unwrap_or_default();
    ctx.creates.forget(deleted);
    ctx.write_history.forget(&uid);
    ctx.replacements.forget(&uid);
    ctx.status_writer.forget(deleted);
    ctx.caches.tombstones.forget(&uid);
    ctx.gating_gangs.forget(&ctx.caches.cliques, deleted);
    ctx.claims.forget(deleted);
    ctx.retired_claims.forget(&uid);
    if ctx.caches.orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    let namespace = deleted.namespace().unwrap_or_default();
    plan::delete_children(&ctx.caches.pods.owned_by(&namespace, &uid), &ctx.caches.claims.owned_by(&namespace, &uid))
}
