//! pcs-controller: `PodCliqueSet` → headless Services, `ResourceClaim`s, `PodGang`s, `PodCliqueScalingGroup`s, `PodClique`s
//! and autoscalers; `PodCliqueScalingGroup` → `ResourceClaim`s and `PodClique`s; and the status of `PodGang`s.
//!
//! Each kind has one reconciler: `set`, `scaling_group` and `gang`. Start with the file of a reconciler: it lists what
//! triggers a reconcile and shows the flow from the snapshot to the status. What the service knows about a feature is in the folder of
//! the feature: `claims`, `compute_domains`, `native_gangs`, `startup`, `topology` and `update`.

use futures::future::join3;
use grove_controller::manager::Manager;
use grove_controller::reconciler::{self, Context, Reconciler};
use grove_runtime::runtime::Runtime;

mod children;
mod claims;
mod compute_domains;
mod gang;
mod informers;
mod native_gangs;
pub mod rbac;
#[cfg(feature = "rehearsal")]
pub mod rehearsal;
mod scaling_group;
mod set;
mod startup;
mod topology;
mod update;

#[cfg(test)]
mod tests;

use gang::GangReconciler;
use informers::PcsCaches;
use scaling_group::GroupReconciler;
use set::SetReconciler;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "pcs-controller";

/// Starts the informers and runs the three reconcilers until the service is stopped.
///
/// # Errors
/// If an informer cannot be started, or a reconciler ends before the service is stopped.
pub async fn run(runtime: &Runtime) -> anyhow::Result<()> {
    let manager = &Manager::new(runtime)?;
    let caches = &PcsCaches::start(manager)?;
    caches.incarnations.add_state_metrics(manager.state_metrics(), SetReconciler::CONTROLLER);
    // On the heap: together they would make a large future.
    let sets = Box::pin(reconciler::run(Context::<SetReconciler>::new(manager, caches.clone())));
    let groups = Box::pin(reconciler::run(Context::<GroupReconciler>::new(manager, caches.clone())));
    let gangs = Box::pin(reconciler::run(Context::<GangReconciler>::new(manager, caches.clone())));
    manager
        .run(async {
            if manager.wait_for_cache_sync().await {
                join3(sets, groups, gangs).await;
            }
            Ok(())
        })
        .await
}
