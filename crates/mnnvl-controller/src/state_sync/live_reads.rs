//! The live read before the object of a clique is created. A daemon may have published its index before the object was deleted, and the
//! cache may be older than that. `strategy/controller_clique.rs` in grove-api-types explains why this is necessary.

use grove_api_types::compute_domain::DOMAIN_LABEL;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_controller::reconcile_error::ReconcileError;
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::StateSyncContext;
use super::observed::Observed;

/// Replaces the pods by those of the API server if a clique has no object.
pub(super) async fn list_pods(ctx: &StateSyncContext, observed: &mut Observed) -> Result<(), ReconcileError> {
    if !observed.lacks_cliques() {
        return Ok(());
    }
    let params = ListParams::default().labels(&format!("{DOMAIN_LABEL}={}", observed.domain.uid().unwrap_or_default()));
    let mut pods = Vec::new();
    let visit = live_list::visit_all(|pod: DaemonPodObject| pods.extend(pod.daemon_pod()));
    let listed = live_list::find::<Pod, _, _>(&ctx.client, Some(&ctx.namespace), params, visit).await;
    listed.map_err(|error| ReconcileError::read(observed.domain.name_any(), &error))?;
    observed.pods = pods;
    Ok(())
}
