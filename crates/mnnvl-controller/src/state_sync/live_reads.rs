//! The live reads before a domain is written: the caches may be older than what the daemons have written, and contain no managed fields.

use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_api_types::compute_domain::status::ComputeDomainStatus;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_controller::reconcile_error::ReconcileError;
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use super::StateSyncContext;
use super::field_managers::{ManagedObject, other_manager};
use super::observed::Observed;

/// Replaces the pods by those of the API server if the plan needs them: a daemon may have published its index before the object of its clique
/// was deleted, and its entry may be newer than the cached pods (`strategy/controller_clique.rs` in grove-api-types explains why that
/// matters).
pub(super) async fn list_pods(ctx: &StateSyncContext, observed: &mut Observed) -> Result<(), ReconcileError> {
    if !observed.needs_live_pods() {
        return Ok(());
    }
    let params = ListParams::default().labels(&format!("{DOMAIN_LABEL}={}", observed.domain.uid().unwrap_or_default()));
    let mut pods = Vec::new();
    let visit = live_list::visit_all(|pod: DaemonPodObject| pods.extend(pod.daemon_pod()));
    let listed = live_list::find::<Pod, _, _>(&ctx.client, Some(&ctx.settings.namespace), params, visit).await;
    listed.map_err(|error| ReconcileError::read(observed.domain.name_any(), &error))?;
    observed.pods = pods;
    Ok(())
}

/// Reads whether another manager writes the state: before the first write to a domain that has the finalizer or a status already, and before a
/// change of `status.status`, which another manager would change back.
pub(super) async fn find_other_manager(
    ctx: &StateSyncContext,
    observed: &mut Observed,
    new: &ComputeDomainStatus,
) -> Result<(), ReconcileError> {
    let domain = &observed.domain;
    let is_written = domain.has_finalizer() || domain.status.status.is_some();
    let changes_status = domain.is_registered() && new.status != domain.status.status;
    if !changes_status && (domain.is_registered() || !is_written) {
        return Ok(());
    }
    let name = domain.name_any();
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let find = |object: ManagedObject| other_manager(&object);
    let namespace = domain.namespace();
    let found = live_list::find_metadata::<ComputeDomain, _, _>(&ctx.client, namespace.as_deref(), params, find).await;
    observed.other_manager = found.map_err(|error| ReconcileError::read(name, &error))?;
    Ok(())
}
