//! pclq-controller: `PodClique` → its resource claims and its pods; `PodGang` → its `podReferences`.
//!
//! Start with the reconcilers, `clique` and `pod_references`: they list what triggers a reconcile and show the flow from the snapshot to the
//! writes.

use std::sync::Arc;

use grove_controller::manager::Manager;
use grove_controller::reconciler::{self, Context, Reconciler};
use grove_runtime::runtime::Runtime;

mod claims;
mod clique;
mod clique_memory;
mod gangs;
mod informers;
mod observed;
mod pod;
mod pod_references;
pub mod rbac;
#[cfg(feature = "rehearsal")]
pub mod rehearsal;
mod replacement_backoff;
mod stage;
mod startup;
mod tombstones;
mod update;
mod write_history;

use clique::CliqueReconciler;
use clique_memory::CliqueMemory;
use startup::InitContainer;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "pclq-controller";

/// Starts the informers and runs the reconciler until the service is stopped. `init_container_image` is the image of the init container of
/// pods that start after others; without it, such pods are not created.
///
/// # Errors
/// If the service cannot listen for signals, or it is forced to stop.
pub async fn run(runtime: &Runtime, init_container_image: Option<String>) -> anyhow::Result<()> {
    let manager = &Manager::new(runtime)?;
    let init_container = InitContainer { image: init_container_image, token: manager.config().startup.token };
    let caches = informers::start(manager, init_container);
    caches.claims.register_metric(manager)?;
    let references = Box::pin(pod_references::run(manager, pod_references::Context::new(manager, &caches)));
    let cliques = Context::<CliqueReconciler>::new(manager, caches);
    for (name, count) in CliqueMemory::MAPS {
        let cliques = Arc::downgrade(&cliques);
        let count = move || cliques.upgrade().map_or(0, |ctx| count(&ctx.caches.memory));
        manager.state_metrics().add(CliqueReconciler::CONTROLLER, name, count);
    }
    let cliques = Box::pin(reconciler::run(cliques));
    manager
        .run(async {
            if manager.wait_for_cache_sync().await {
                futures::join!(cliques, references);
            }
            Ok(())
        })
        .await
}
