//! The `ComputeDomain` reconciler; start here.
//!
//! It deletes the domains that no set and no pod needs any more, and removes Grove's finalizer from domains that a user deleted when their last
//! pod has ended. [`triggers()`] lists what enqueues a domain. [`reconcile()`] takes a snapshot of the domain, its set, and the cliques and
//! pods that use it from the caches (`observe`), confirms at the API server that nothing uses it (`live_reads`), and executes the
//! plan. The status of a domain belongs to NVIDIA's driver.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::compute_domain::ComputeDomain;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::triggers::enqueue_on_list;
use kube::Client;

use self::triggers::{domains_of_clique, domains_of_pod, domains_of_set};
use crate::informers::MnnvlCaches;
use crate::lost_owner::has_finalizer;

mod live_reads;
mod observe;
mod observed;
mod plan;
mod triggers;

#[cfg(test)]
mod tests;

/// The name of the controller in logs, metrics and events.
const CONTROLLER: &str = "computedomain-release-controller";

/// The dependencies of the reconciler of domains.
pub(crate) struct DomainContext {
    pub(crate) caches: MnnvlCaches,
    pub(crate) executor: Executor,
    /// For live reads.
    pub(crate) client: Client,
}

impl DomainContext {
    /// The context of the reconciler.
    pub(crate) fn new(manager: &Manager, caches: MnnvlCaches) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(CONTROLLER);
        Arc::new(Self { caches, executor, client: manager.client() })
    }
}

/// Reconciles domains until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<DomainContext>) {
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique_set.concurrent_syncs)
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a domain, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the domain itself;
/// - a deletion of its set, or a change of the set in more than its status;
/// - a clique of its replica was deleted or is terminating, or a pod with a claim of the domain ended;
/// - the cliques or pods were listed, because an object that was deleted before has no delta.
fn triggers(ctx: &DomainContext) -> ControllerBuilder<ComputeDomain> {
    let MnnvlCaches { sets, domains, cliques, pods, .. } = &ctx.caches;
    let of_sets = {
        let domains = domains.clone();
        sets.subscribe().flat_map(move |delta| stream::iter(domains_of_set(&domains, &delta)))
    };
    let of_cliques = {
        let (sets, domains) = (sets.clone(), domains.clone());
        cliques.subscribe().flat_map(move |delta| stream::iter(domains_of_clique(&sets, &domains, &delta)))
    };
    let of_pods = {
        let domains = domains.clone();
        pods.subscribe().flat_map(move |delta| stream::iter(domains_of_pod(&domains, &delta)))
    };
    ControllerBuilder::new(CONTROLLER, domains.clone(), domains.subscribe())
        .watches(of_sets)
        .watches(of_cliques)
        .watches(of_pods)
        .watches(enqueue_on_list(domains, vec![cliques.relists(), pods.relists()], has_finalizer))
}

async fn reconcile(domain: Arc<ComputeDomain>, ctx: Arc<DomainContext>) -> Result<Requeue, ReconcileError> {
    let mut observed = observe::observe(&ctx, &domain);
    live_reads::confirm(&ctx, &mut observed).await?;
    let result = ctx.executor.execute(&*domain, &plan::plan(&observed)).await;
    let requeue = Requeue::AwaitChange;
    result.into_result().map_err(|source| ReconcileError::Execute { source, requeue })?;
    Ok(requeue)
}
