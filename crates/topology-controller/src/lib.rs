//! topology-controller: `PodGang` → the `PodGroup` by which its scheduler schedules the pods of the gang together, and the conditions of the
//! gang about its scheduling; `ClusterTopology` and `ClusterTopologyBinding` → the topology objects of schedulers, finalizers and statuses.
//!
//! Start with `gang`, `cluster_topology` or `topology_binding`, the reconcilers: each lists what triggers a reconcile and shows the flow from
//! the snapshot to the status.

use grove_controller::manager::Manager;
use grove_controller::reconciler::{self, Context};
use grove_runtime::runtime::Runtime;

mod base_gangs;
mod cluster_topology;
mod default_topology;
mod gang;
mod informers;
mod json;
mod pod_groups;
pub mod rbac;
mod scheduler_topologies;
mod slim_clique;
mod slim_node;
mod slim_set;
mod topology_binding;

use default_topology::create_whenever_missing;
use gang::GangReconciler;
use informers::{GangCaches, TopologyCaches};
use topology_binding::BindingReconciler;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "topology-controller";

/// Starts the informers and runs the reconcilers until the service is stopped.
///
/// # Errors
/// If a default topology that the configuration requires does not exist, an informer cannot be started, or a reconciler ends before the
/// service is stopped.
pub async fn run(runtime: &Runtime) -> anyhow::Result<()> {
    cluster_topology::startup_check::check(&runtime.client(), &runtime.config().topology).await?;
    let manager = &Manager::new(runtime)?;
    let gang_caches = GangCaches::start(manager);
    let caches = TopologyCaches::start(&gang_caches);
    // On the heap: these are large futures.
    let default = Box::pin(create_whenever_missing(manager, caches.clone()));
    let gangs = Box::pin(reconciler::run(Context::<GangReconciler>::new(manager, gang_caches)));
    let bindings = Box::pin(reconciler::run(Context::<BindingReconciler>::new(manager, caches.clone())));
    let topologies = Box::pin(reconciler::run(cluster_topology::context(manager, caches)));
    manager
        .run(async {
            if manager.wait_for_cache_sync().await {
                tokio::join!(gangs, bindings, default, topologies);
            }
            Ok(())
        })
        .await
}
