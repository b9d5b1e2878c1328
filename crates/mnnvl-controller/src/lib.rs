//! mnnvl-controller: `PodCliqueSet` → the `ComputeDomain`s by which its pods communicate over `NVLink` between nodes, and the condition of
//! the set about them.
//!
//! `set` is the reconciler of sets: it creates, restores and deletes their domains. `domain` is the reconciler of domains: it removes
//! Grove's finalizer from a domain that no pod needs any more. `state_sync` is the reconciler of the state of domains, which is off by
//! default. All list what triggers a reconcile and show its flow.

use futures::future::{OptionFuture, join3};
use grove_controller::manager::Manager;
use grove_controller::reconciler::{self, Context};
use grove_runtime::runtime::Runtime;

mod domain;
mod informers;
mod lost_owner;
pub mod rbac;
mod replica_objects;
mod set;
mod set_owner;
mod startup_check;
mod state_sync;

use domain::DomainContext;
use informers::MnnvlCaches;
use set::SetReconciler;
use state_sync::StateSyncContext;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "mnnvl-controller";

/// Checks that the API server serves the domains if the configuration enables automatic MNNVL, starts the informers, and runs both
/// reconcilers until the service is stopped.
///
/// # Errors
/// If the domains are not served, an informer cannot be started, or a reconciler ends before the service is stopped.
pub async fn run(runtime: &Runtime) -> anyhow::Result<()> {
    let is_stopped = startup_check::run(runtime).await?;
    if is_stopped {
        return Ok(());
    }
    let manager = &Manager::new(runtime)?;
    let caches = MnnvlCaches::start(manager);
    let domain_ctx = DomainContext::new(manager, caches.clone());
    let state_sync_ctx = StateSyncContext::start(manager);
    // On the heap: they are large futures.
    let sets = Box::pin(reconciler::run(Context::<SetReconciler>::new(manager, caches)));
    let domains = Box::pin(domain::run(manager, domain_ctx));
    let states = Box::pin(OptionFuture::from(state_sync_ctx.map(|ctx| state_sync::run(manager, ctx))));
    manager
        .run(async {
            if manager.wait_for_cache_sync().await {
                join3(sets, domains, states).await;
            }
            Ok(())
        })
        .await
}
