//! The reconciler of the state of domains; start here. It runs only with `computeDomain.stateSync: grove`.
//!
//! It replaces the controller of NVIDIA's driver: it creates the `DaemonSet` and the claim templates of a domain, keeps the entries of its
//! daemons and the summary in its status, and stops it when it is deleted. [`triggers()`] lists what enqueues a domain. [`reconcile()`]
//! takes a snapshot of the domain and its objects from the caches (`observe`), reads at the API server what the caches may lack
//! (`live_reads`), executes the plan, and writes the summary (`status`). `orphans` has the reconcilers of objects whose domain no longer exists.

use std::sync::Arc;

use futures::future::join4;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_patch::StatusOwnership;
use grove_controller::triggers::enqueue_on_list;
use kube::Client;
use serde_json::json;

use self::domain::SyncedDomain;
use self::informers::{StateCaches, domain_of_clique};
use self::objects::domain_of;
use self::observed::Settings;
use self::triggers::domains_of_changed;

mod desired;
mod domain;
mod field_managers;
mod informers;
mod live_reads;
mod objects;
mod observe;
mod observed;
mod orphans;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

/// The name of the controller in logs, metrics and events.
const CONTROLLER: &str = "computedomain-state-controller";

/// The dependencies of the reconcilers. Only `reconcile`, `triggers` and `observe` see it.
pub(crate) struct StateSyncContext {
    caches: StateCaches,
    executor: Executor,
    /// For live reads.
    client: Client,
    settings: Arc<Settings>,
}

impl StateSyncContext {
    /// Starts the informers; `None` if another service synchronizes the state.
    pub(crate) fn start(manager: &Manager) -> Option<Arc<Self>> {
        let config = manager.config();
        config.compute_domains.is_synchronized().then(|| {
            Arc::new(Self {
                caches: StateCaches::start(manager),
                executor: manager.executor().with_reporting_controller(CONTROLLER),
                client: manager.client(),
                settings: Arc::new(Settings::new(config, manager.namespace())),
            })
        })
    }
}

/// Reconciles the state of domains until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<StateSyncContext>) {
    let concurrency = manager.config().controllers.pod_clique_set.concurrent_syncs;
    let domains = triggers(&ctx).concurrency(concurrency).run(manager, Arc::clone(&ctx), reconcile);
    let daemon_sets = orphans::run_daemon_sets(manager, Arc::clone(&ctx));
    let claim_templates = orphans::run_claim_templates(manager, Arc::clone(&ctx));
    join4(domains, daemon_sets, claim_templates, orphans::run_nodes(manager, ctx)).await;
}

/// What triggers a reconcile of a domain, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the domain itself;
/// - a change of one of its objects: of the pods of its daemons, of its cliques, `DaemonSet` and claim templates, and of the label of a node;
/// - the pods, cliques or templates were listed, because an object that was deleted before has no delta.
fn triggers(ctx: &StateSyncContext) -> ControllerBuilder<SyncedDomain> {
    let StateCaches { domains, cliques, pods, daemon_sets, claim_templates, nodes } = &ctx.caches;
    let relists = vec![pods.relists(), cliques.relists(), daemon_sets.relists(), claim_templates.relists()];
    ControllerBuilder::new(CONTROLLER, domains.clone(), domains.subscribe())
        .watches(domains_of_changed(domains, pods, domain_of))
        .watches(domains_of_changed(domains, cliques, domain_of_clique))
        .watches(domains_of_changed(domains, daemon_sets, domain_of))
        .watches(domains_of_changed(domains, claim_templates, domain_of))
        .watches(domains_of_changed(domains, nodes, domain_of))
        .watches(enqueue_on_list(domains, relists, |_| true))
}

async fn reconcile(domain: Arc<SyncedDomain>, ctx: Arc<StateSyncContext>) -> Result<Requeue, ReconcileError> {
    let mut observed = observe::observe(&ctx, &domain);
    live_reads::list_pods(&ctx, &mut observed).await?;
    let cliques = observed.desired_cliques();
    let status = status::status(&observed, &cliques);
    live_reads::find_other_manager(&ctx, &mut observed, &status).await?;
    let requeue = Requeue::AwaitChange;
    let plan = plan::plan(&observed, &cliques);
    let executed = ctx.executor.execute(&*domain, &plan).await.into_result();
    // The status follows the daemons, although an object cannot be created.
    if observed.writes_status() {
        let (old, new) = (json!(domain.status), json!(status));
        let written = ctx.executor.patch_status(&*domain, &old, &new, StatusOwnership::Exclusive).await;
        written.map_err(|source| ReconcileError::WriteStatus { source, requeue })?;
    }
    executed.map_err(|source| ReconcileError::Execute { source, requeue })?;
    Ok(requeue)
}
