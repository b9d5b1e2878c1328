//! The `PodCliqueSet` reconciler: the page to read first.
//!
//! A set is woken by its own changes and by those of its children. It is observed from caches into one value, planned
//! from that value alone, carried out by the one executor, and told about itself.

use std::sync::Arc;

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::controller::{Next, Wiring};
use grove_runtime::executor;
use grove_runtime::service::Service;

use crate::Ctx;

pub mod observe;
pub mod observed;

mod desired;
pub mod plan;
pub mod status;

#[cfg(test)]
mod tests;

/// In whose name events are published; the wire format has it.
pub const CONTROLLER: &str = "podcliqueset-controller";

/// Why a reconcile is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some step of the plan was refused; the set's status says which.
    #[error("could not carry out the plan")]
    CarryOut(#[source] executor::Error),
    /// A status could not be written.
    #[error("could not publish the status")]
    Publish(#[source] executor::Error),
}

/// Reconciles sets until the service is told to stop.
pub async fn run(service: &Service, ctx: Arc<Ctx>, changes: observe::Changes) {
    let (caches, refused) = (ctx.caches.clone(), ctx.refused.sets.clone());
    Wiring::new(CONTROLLER, changes.sets)
        .concurrency(service.config().controllers.pod_clique_set.concurrent_syncs)
        .woken_by(changes.touched)
        .relieved_by(changes.relieved)
        .orphans(move |gone| {
            refused.forget(gone);
            plan::deletion_of_children(&observe::children(&caches, gone))
        })
        .run(service, ctx, reconcile)
        .await;
}

async fn reconcile(set: Arc<PodCliqueSet>, ctx: Arc<Ctx>) -> Result<Next, Error> {
    let now = ctx.clock.now();
    let seen = observe::observe(&ctx, &set);
    let plan = plan::plan(&seen);
    let done = ctx.executor.carry_out(&*set, &plan).await;
    ctx.refused.sets.note(&*set, &seen.refused, &done);
    observe::catch_up(&ctx.caches, &done).await;
    if !seen.is_leaving() && !done.will_be_heard_of() {
        let told = status::of_set(&seen, &done, now);
        ctx.executor.publish(&*set, set.status.as_ref(), &told).await.map_err(Error::Publish)?;
    }
    done.into_result().map_err(Error::CarryOut)?;
    Ok(Next::after(&plan, None))
}
