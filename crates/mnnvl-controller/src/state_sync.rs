//! The reconciler of the state of domains; start here. It runs only with `computeDomain.stateSync: grove` and the strategy
//! `controller-clique`.
//!
//! It writes the objects of the cliques of a domain, from the pods of the daemons, and the summary in the status of the domain.
//! [`triggers()`] lists what enqueues a domain. [`reconcile()`] takes a snapshot of the domain, its cliques and its daemons from the caches
//! (`observe`), lists the pods at the API server before it creates a clique (`live_reads`), executes the plan, and writes the summary
//! (`status`).

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_patch::StatusOwnership;
use grove_controller::triggers::enqueue_on_list;
use grove_runtime::caches::Cache;
use kube::Client;
use serde_json::json;

use self::domain::SyncedDomain;
use self::triggers::{domains_of_clique, domains_of_pod};

mod domain;
mod informers;
mod live_reads;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

/// The name of the controller in logs, metrics and events.
const CONTROLLER: &str = "computedomain-state-controller";

/// The dependencies of the reconciler. Only `reconcile`, `triggers` and `observe` see it.
pub(crate) struct StateSyncContext {
    domains: Cache<SyncedDomain>,
    cliques: Cache<ComputeDomainClique>,
    /// The pods of the daemons of all domains.
    pods: Cache<DaemonPodObject>,
    executor: Executor,
    /// For live reads.
    client: Client,
    /// The namespace of the daemons and of the objects of cliques.
    namespace: String,
    /// Whether the status has the entries too.
    mirrors_nodes: bool,
}

impl StateSyncContext {
    /// Starts the informers; `None` if this service does not write the state.
    pub(crate) fn start(manager: &Manager) -> Option<Arc<Self>> {
        let config = &manager.config().compute_domains;
        config.is_written_by_controller().then(|| {
            let (domains, cliques, pods) = informers::start(manager);
            Arc::new(Self {
                domains,
                cliques,
                pods,
                executor: manager.executor().with_reporting_controller(CONTROLLER),
                client: manager.client(),
                namespace: manager.namespace().to_owned(),
                mirrors_nodes: config.mirror_nodes,
            })
        })
    }
}

/// Reconciles the state of domains until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<StateSyncContext>) {
    triggers(&ctx)
        .concurrency(manager.config().controllers.pod_clique_set.concurrent_syncs)
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a domain, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the domain itself;
/// - a change of the pod of one of its daemons, or of the object of one of its cliques;
/// - the pods or cliques were listed, because an object that was deleted before has no delta.
fn triggers(ctx: &StateSyncContext) -> ControllerBuilder<SyncedDomain> {
    let StateSyncContext { domains, cliques, pods, .. } = ctx;
    let of_pods = {
        let domains = domains.clone();
        pods.subscribe().flat_map(move |delta| stream::iter(domains_of_pod(&domains, &delta)))
    };
    let of_cliques = {
        let domains = domains.clone();
        cliques.subscribe().flat_map(move |delta| stream::iter(domains_of_clique(&domains, &delta)))
    };
    ControllerBuilder::new(CONTROLLER, domains.clone(), domains.subscribe())
        .watches(of_pods)
        .watches(of_cliques)
        .watches(enqueue_on_list(domains, vec![pods.relists(), cliques.relists()], |_| true))
}

async fn reconcile(domain: Arc<SyncedDomain>, ctx: Arc<StateSyncContext>) -> Result<Requeue, ReconcileError> {
    let mut observed = observe::observe(&ctx, &domain);
    live_reads::list_pods(&ctx, &mut observed).await?;
    let requeue = Requeue::AwaitChange;
    let cliques = observed.desired_cliques();
    let result = ctx.executor.execute(&*domain, &plan::plan(&observed, &cliques)).await;
    result.into_result().map_err(|source| ReconcileError::Execute { source, requeue })?;
    let (old, new) = (json!(domain.status), json!(status::status(&observed, &cliques)));
    let written = ctx.executor.patch_status(&*domain, &old, &new, StatusOwnership::Exclusive).await;
    written.map_err(|source| ReconcileError::WriteStatus { source, requeue })?;
    Ok(requeue)
}
