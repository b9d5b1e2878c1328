//! topology-controller: `PodGang` → the `PodGroup` by which its scheduler schedules the pods of the gang together, and the conditions of the
//! gang about its scheduling.
//!
//! Start with `gang`, the reconciler: it lists what triggers a reconcile and shows the flow from the snapshot to the status.

use grove_controller::manager::Manager;
use grove_runtime::runtime::Runtime;

mod base_gangs;
mod context;
mod gang;
mod informers;
mod json;
mod pod_groups;
pub mod rbac;
mod slim_clique;

use context::Context;
use informers::GangCaches;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "topology-controller";

/// Starts the informers and runs the reconciler until the service is stopped.
///
/// # Errors
/// If an informer cannot be started, or the reconciler ends before the service is stopped.
pub async fn run(runtime: &Runtime) -> anyhow::Result<()> {
    let manager = &Manager::new(runtime)?;
    let ctx = Context::new(manager, GangCaches::start(manager), gang::CONTROLLER, &gang::CHILD_KINDS);
    // On the heap: it is a large future.
    let gangs = Box::pin(gang::run(manager, ctx));
    manager
        .run(async {
            if manager.wait_for_cache_sync().await {
                gangs.await;
            }
            Ok(())
        })
        .await
}
