//! The `PodCliqueScalingGroup` reconciler: the page to read first.
//!
//! A group is woken by its own changes, by its cliques, by its set when that changes what cliques are made from, and by
//! the gangs its cliques are scheduled with. It makes the cliques of each of its replicas and tells how many are there.

use std::sync::Arc;

use grove_api_types::v1alpha1::PodCliqueScalingGroup;
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
pub const CONTROLLER: &str = "podcliquescalinggroup-controller";

/// Why a reconcile is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some step of the plan was refused; the group's status says which.
    #[error("could not carry out the plan")]
    CarryOut(#[source] executor::Error),
    /// The status could not be written.
    #[error("could not publish the status")]
    Publish(#[source] executor::Error),
}

/// Reconciles groups until the service is told to stop.
pub async fn run(service: &Service, ctx: Arc<Ctx>, changes: observe::Changes) {
    let ended = Arc::clone(&ctx);
    Wiring::new(CONTROLLER, changes.groups)
        .concurrency(service.config().controllers.pod_clique_scaling_group.concurrent_syncs)
        .woken_by(changes.touched)
        .relieved_by(changes.relieved)
        .orphans(move |gone| {
            ended.refused.groups.forget(gone);
            ended.pace.rest(gone);
            plan::deletion_of_cliques(&observe::cliques(&ended.caches, gone), gone)
        })
        .run(service, ctx, reconcile)
        .await;
}

async fn reconcile(group: Arc<PodCliqueScalingGroup>, ctx: Arc<Ctx>) -> Result<Next, Error> {
    let now = ctx.clock.now();
    let seen = observe::observe(&ctx, &group);
    let plan = plan::plan(&seen);
    let done = ctx.executor.carry_out(&*group, &plan).await;
    ctx.refused.groups.note(&*group, &seen.refused, &done);
    let mut telling = None;
    if !seen.is_leaving() && !done.will_be_heard_of() {
        let told = status::status(&seen, &plan, &done, now);
        if let Err(wait) = ctx.pace.keep(&*group, status::tidings(group.status.as_ref(), &told)) {
            telling = Some(wait);
        } else {
            let published = ctx.executor.publish(&*group, group.status.as_ref(), &told).await;
            published.map_err(Error::Publish)?;
        }
    }
    done.into_result().map_err(Error::CarryOut)?;
    Ok(Next::after(&plan, telling))
}
