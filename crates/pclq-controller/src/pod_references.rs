//! The reconciler of the pod references of `PodGang`s; start here.
//!
//! The pod groups of a gang have references to the pods of their cliques, and this reconciler is their only writer. The work queue merges the
//! triggers of all cliques and pods of a gang, so a gang of thousands of pods needs few patches, at most one per second. They wait
//! for nothing else ([`status_limiter`](grove_controller::status_limiter)): each patch is a new generation of the gang, which its statuses observe.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::slim_pod::SlimPod;
use grove_controller::status_limiter::{StatusChange, StatusLimiter, WriteLatency};
use grove_controller::triggers::enqueue_all_on_relist;
use grove_runtime::caches::Cache;

use self::triggers::{gangs_of_clique, gangs_of_pod};
use crate::informers::PclqCaches;
use grove_api_types::v1alpha1::PodClique;

mod observe;
mod observed;
mod plan;
mod triggers;

#[cfg(test)]
mod tests;

/// The name of the controller in logs, metrics and events.
const CONTROLLER: &str = "podreferences-controller";

/// The dependencies of the reconciler.
pub(crate) struct Context {
    gangs: Cache<PodGang>,
    cliques: Cache<PodClique>,
    pods: Cache<SlimPod>,
    executor: Executor,
    limiter: StatusLimiter,
}

impl Context {
    pub(crate) fn new(manager: &Manager, caches: &PclqCaches) -> Arc<Self> {
        let PclqCaches { gangs, cliques, pods, .. } = caches;
        let executor = manager.executor().with_reporting_controller(CONTROLLER);
        // Its latency stays zero, so that only the interval delays a patch.
        let limiter = StatusLimiter::new(WriteLatency::default());
        let (gangs, cliques, pods) = (gangs.clone(), cliques.clone(), pods.clone());
        Arc::new(Self { gangs, cliques, pods, executor, limiter })
    }
}

/// Reconciles gangs until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context>) {
    manager.state_metrics().add_all(CONTROLLER, &ctx, &[("statuses", |ctx| ctx.limiter.len())]);
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique.concurrent_syncs)
        .on_deleted(move |deleted| {
            cleanup.limiter.forget(deleted);
            Plan::new()
        })
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a gang, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a clique of the gang that was created or deleted, is terminating, or has another number of desired pods;
/// - a pod of a clique of the gang that was created or deleted, is terminating or has ended, or has another controller;
/// - a relist of cliques or pods, because deltas may have been missed.
fn triggers(ctx: &Context) -> ControllerBuilder<PodGang> {
    let Context { gangs, cliques, pods, .. } = ctx;
    let cliques_of_pods = cliques.clone();
    ControllerBuilder::new(CONTROLLER, gangs.clone(), gangs.subscribe())
        .watches(cliques.subscribe().flat_map(|delta| stream::iter(gangs_of_clique(&delta))))
        .watches(pods.subscribe().flat_map(move |delta| stream::iter(gangs_of_pod(&cliques_of_pods, &delta))))
        .watches(enqueue_all_on_relist(gangs, vec![cliques.relists(), pods.relists()]))
}

async fn reconcile(gang: Arc<PodGang>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let plan = plan::plan(&observe::observe(&ctx, &gang));
    if plan.is_empty() {
        ctx.limiter.end_wait(&*gang);
        return Ok(Requeue::AwaitChange);
    }
    if let Err(delay) = ctx.limiter.admit(&*gang, StatusChange::Minor) {
        return Ok(Requeue::StatusAfter(delay));
    }
    let result = ctx.executor.execute(&*gang, &plan).await;
    if result.succeeded() {
        ctx.limiter.record_write(&*gang);
    }
    result.into_result().map_err(|source| ReconcileError::Execute { source, requeue: Requeue::AwaitChange })?;
    Ok(Requeue::AwaitChange)
}
