//! The `PodCliqueSet` reconciler: the page to read first.
//!
//! A set is woken by its own changes and by those of its children. It is observed from caches into one value, planned
//! from that value alone, carried out by the one executor, and told about itself and its gangs.

use std::sync::Arc;

use futures::future::{join, join_all};
use grove_api_types::core::PodCliqueSet;
use grove_runtime::controller::Wiring;
use grove_runtime::executor::{self, Done};
use grove_runtime::service::Service;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;

use self::observed::Observed;
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
    let caches = ctx.caches.clone();
    Wiring::new(CONTROLLER, changes.sets)
        .concurrency(service.config().controllers.pod_clique_set.concurrent_syncs)
        .woken_by(changes.touched)
        .orphans(move |gone| plan::deletion_of_children(&observe::children(&caches, gone)))
        .run(service, ctx, reconcile)
        .await;
}

async fn reconcile(set: Arc<PodCliqueSet>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let now = ctx.clock.now();
    let seen = observe::observe(&ctx.caches, &set);
    let plan = plan::plan(&seen);
    let done = ctx.executor.carry_out(&*set, &plan).await;
    let told = publish(&ctx, &set, &seen, &done, now).await;
    done.into_result().map_err(Error::CarryOut)?;
    told.map_err(Error::Publish)?;
    Ok(plan.revisit.map_or_else(Action::await_change, Action::requeue))
}

/// Tells the set and each of its gangs; that one cannot be told keeps nothing from the others.
async fn publish(
    ctx: &Ctx,
    set: &PodCliqueSet,
    seen: &Observed,
    done: &Done,
    now: Timestamp,
) -> Result<(), executor::Error> {
    if seen.is_leaving() || done.will_be_heard_of() {
        return Ok(());
    }
    let of_set = status::of_set(seen, done, now);
    let gangs = status::of_gangs(seen, now);
    let of_gangs = gangs.iter().map(|(gang, told)| ctx.executor.publish(&**gang, gang.status.as_ref(), told));
    let (of_set, of_gangs) = join(ctx.executor.publish(set, set.status.as_ref(), &of_set), join_all(of_gangs)).await;
    of_gangs.into_iter().chain([of_set]).collect::<Result<Vec<_>, _>>().map(drop)
}
