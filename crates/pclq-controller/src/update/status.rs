//! The progress of the update of a clique. Pure.

use grove_api_types::v1alpha1::{PodClique, PodCliqueUpdateProgress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::plan::Hashes;

/// How many pods of a clique are in which state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCounts {
    /// The live pods.
    pub(crate) live: i32,
    /// Those that the update replaces.
    pub(crate) outdated: i32,
    /// The ready ones.
    pub(crate) ready: i32,
}

/// The progress of the current or the last update. It ends when all pods are new and enough of them are ready, and at once for a new clique and
/// if the user replaces the pods.
pub(crate) fn progress(clique: &PodClique, counts: PodCounts, now: Timestamp) -> Option<PodCliqueUpdateProgress> {
    let old = clique.status.as_ref().and_then(|status| status.update_progress.clone());
    let Some(hashes) = Hashes::of(clique) else { return old };
    let required = clique.spec.required_replicas();
    let is_done = counts.outdated == 0 && counts.live >= required && counts.ready >= required;
    let is_new = old.is_none() && !is_known(clique);
    let ended = (is_done || is_new || !hashes.have_turn(clique)).then_some(Time(now));
    match old {
        Some(old) if hashes.are_of(&old) => {
            Some(PodCliqueUpdateProgress { update_ended_at: old.update_ended_at.or(ended), ..old })
        }
        Some(_) | None => Some(PodCliqueUpdateProgress {
            update_started_at: Some(Time(now)),
            update_ended_at: ended,
            pod_clique_set_generation_hash: hashes.generation.to_owned(),
            pod_template_hash: hashes.pods.to_owned(),
            ready_pods_selected_to_update: None,
        }),
    }
}

/// Whether the clique has had pods of a known template.
fn is_known(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| status.current_pod_template_hash.is_some())
}
