//! The `PodGang` reconciler: the page to read first.
//!
//! Sets make gangs; here a gang is only told where it is in its life, by what its cliques say of themselves. One gang at a
//! time, so that a thousand gangs of one set are told no differently from a thousand sets of one gang.

use std::sync::Arc;

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_runtime::controller::{Next, Wiring};
use grove_runtime::executor;
use grove_runtime::plan::Plan;
use grove_runtime::service::Service;

use crate::Ctx;

pub mod observe;
pub mod observed;

pub mod status;

#[cfg(test)]
mod tests;

/// What the controller is called in logs and metrics.
pub const CONTROLLER: &str = "podgang-status-controller";

/// Why a reconcile is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status could not be written.
    #[error("could not publish the status")]
    Publish(#[source] executor::Error),
}

/// Tells gangs until the service is told to stop.
pub async fn run(service: &Service, ctx: Arc<Ctx>, changes: observe::Changes) {
    let ended = Arc::clone(&ctx);
    Wiring::new(CONTROLLER, changes.gangs)
        .concurrency(service.config().controllers.pod_gang.concurrent_syncs)
        .woken_by(changes.touched)
        .orphans(move |gone| {
            ended.pace.rest(gone);
            Plan::new()
        })
        .run(service, ctx, reconcile)
        .await;
}

async fn reconcile(gang: Arc<PodGang>, ctx: Arc<Ctx>) -> Result<Next, Error> {
    let now = ctx.clock.now();
    let seen = observe::observe(&ctx.caches, &gang);
    if seen.is_leaving() {
        ctx.pace.rest(&*gang);
        return Ok(Next::Event);
    }
    let told = status::status(&seen, now);
    if let Err(wait) = ctx.pace.keep(&*gang, status::tidings(gang.status.as_ref(), &told)) {
        return Ok(Next::Telling(wait));
    }
    ctx.executor.publish(&*gang, gang.status.as_ref(), &told).await.map_err(Error::Publish)?;
    Ok(Next::Event)
}
