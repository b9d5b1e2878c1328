//! Plans the writes of the objects of the cliques of a domain.

use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::deletion::is_terminating;
use grove_api_types::events;
use grove_controller::plan::{Stage, Step, WarningEvent};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::json;

use crate::state_sync::observed::{DesiredClique, Observed};

/// Writes the objects of the cliques. A clique that changed since it was observed stays until the next reconcile.
pub(super) fn stage(observed: &Observed, cliques: &[DesiredClique]) -> Stage {
    // Without a known strategy, or beside another manager, the entries are not Grove's.
    let cliques = if observed.writes_status() { cliques } else { &[] };
    Stage::new("cliques", cliques.iter().filter_map(|clique| step(observed, clique)))
}

/// The daemons without entry.
pub(super) fn warnings(cliques: &[DesiredClique]) -> impl Iterator<Item = WarningEvent> {
    let problems = cliques.iter().flat_map(|clique| &clique.assignment.problems);
    problems.map(|problem| WarningEvent { reason: events::COMPUTE_DOMAIN_DAEMON_REJECTED, note: problem.to_string() })
}

fn step(observed: &Observed, clique: &DesiredClique) -> Option<Step> {
    let DesiredClique { object, assignment, .. } = clique;
    match object {
        Some(object) if is_terminating(&**object) => None,
        Some(object) => patch(object, clique),
        None if assignment.entries.is_empty() || is_terminating(&observed.domain) => None,
        None => Some(Step::create(&new_object(observed, clique))),
    }
}

/// Replaces the entries and owners that differ. A clique without entries keeps its owners, so that it is deleted after them.
fn patch(object: &ComputeDomainClique, clique: &DesiredClique) -> Option<Step> {
    let assignment = &clique.assignment;
    let current_owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    let has_other_owners = !assignment.owners.is_empty() && current_owners != assignment.owners;
    if object.daemons == assignment.entries && !has_other_owners {
        return None;
    }
    let mut change = json!({ "daemons": assignment.entries });
    if has_other_owners {
        change["metadata"] = json!({ "ownerReferences": assignment.owners });
    }
    Some(Step::merge_patch_with_optimistic_lock(object, change))
}

fn new_object(observed: &Observed, clique: &DesiredClique) -> ComputeDomainClique {
    let uid = observed.domain.uid().unwrap_or_default();
    let metadata = ObjectMeta {
        namespace: Some(observed.settings.namespace.clone()),
        name: Some(clique.name.to_string()),
        labels: Some(ComputeDomainClique::labels(&uid, &clique.id)),
        owner_references: Some(clique.assignment.owners.clone()),
        ..ObjectMeta::default()
    };
    ComputeDomainClique { metadata, daemons: clique.assignment.entries.clone() }
}
