//! The `PodClique` reconciler: the page to read first.
//!
//! A clique is a complete order: its pods, their number and their place in the gang follow from the object itself,
//! never from the set it was made for. It is woken by its own changes, by its pods, and by gangs that name it.

use std::sync::Arc;

use grove_api_types::v1alpha1::PodClique;
use grove_controller::controller::{ControllerBuilder, Requeue};
use grove_controller::controllers::Controllers;
use grove_controller::executor;
use grove_controller::plan::Plan;
use kube::ResourceExt;

use crate::Ctx;

pub mod observe;
pub mod observed;

pub mod desired;
pub mod plan;
pub mod status;

#[cfg(test)]
mod tests;

/// In whose name events are published; the wire format has it.
pub const CONTROLLER: &str = "podclique-controller";

/// Why a reconcile is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some step of the plan was refused; the clique's status says which.
    #[error("could not carry out the plan")]
    CarryOut(#[source] executor::Error),
    /// The status could not be written.
    #[error("could not publish the status")]
    Publish(#[source] executor::Error),
}

/// Reconciles cliques until the service is told to stop.
///
/// # Errors
/// When the service cannot listen for signals or is stopped by force.
pub async fn run(service: &Controllers, ctx: Arc<Ctx>, changes: observe::Changes) -> anyhow::Result<()> {
    let orphaned = Arc::clone(&ctx);
    let wiring = ControllerBuilder::new(CONTROLLER, ctx.caches.cliques.clone(), changes.cliques)
        .concurrency(service.config().controllers.pod_clique.concurrent_syncs)
        .watches(changes.touched)
        .retry_on(changes.relieved)
        .on_deleted(move |gone| left_behind(&orphaned, gone));
    service
        .run(async {
            wiring.run(service, ctx, reconcile).await;
            Ok(())
        })
        .await
}

async fn reconcile(clique: Arc<PodClique>, ctx: Arc<Ctx>) -> Result<Requeue, Error> {
    let now = ctx.clock.now();
    let lists = *ctx.caches.pods.relists().borrow();
    let seen = observe::observe(&ctx, &clique, lists);
    let plan = plan::plan(&seen);
    ctx.memory.keep_asked(seen.uid(), &plan, lists);
    let done = ctx.executor.execute(&*clique, &plan).await;
    ctx.memory.keep_answers(seen.uid(), &done);
    ctx.memory.keep_told(seen.uid(), &done, seen.gang.as_deref().and_then(ResourceExt::resource_version));
    ctx.starved.note(&clique, &done);
    let mut telling = None;
    if !seen.is_leaving() && !done.has_pending_watch_events() {
        let told = status::status(&seen, &plan, &done, now);
        if let Err(wait) = ctx.pace.admit(&*clique, status::tidings(&seen, clique.status.as_ref(), &told)) {
            telling = Some(wait);
        } else {
            let published = ctx.executor.patch_status(&*clique, clique.status.as_ref(), &told).await;
            published.map_err(Error::Publish)?;
        }
    }
    done.into_result().map_err(Error::CarryOut)?;
    Ok(Requeue::after(&plan, telling))
}

/// What is to be done about the pods of a clique that is gone.
fn left_behind(ctx: &Ctx, gone: &PodClique) -> Plan {
    let uid = gone.uid().unwrap_or_default();
    ctx.memory.forget(&uid);
    ctx.pace.forget(gone);
    ctx.starved.forget(gone);
    ctx.caches.pods.forget_owner(&uid);
    plan::farewell(gone, &ctx.caches.pods.owned_by(&uid))
}
