//! The progress of the update of a clique. Pure.

use grove_api_types::v1alpha1::{PodClique, PodCliqueUpdateProgress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::plan::{Target, is_member};

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
/// if the user replaces the pods. As in the Go operator, a new clique of a scaling group has none.
pub(crate) fn progress(clique: &PodClique, counts: PodCounts, now: Timestamp) -> Option<PodCliqueUpdateProgress> {
    let old = clique.status.as_ref().and_then(|status| status.update_progress.clone());
    let Some(target) = Target::of(clique) else { return old };
    if old.is_none() && counts.outdated == 0 && is_member(clique) && !has_other_template(clique, target) {
        return None;
    }
    let required = clique.spec.required_replicas();
    let is_done = counts.outdated == 0 && counts.live >= required && counts.ready >= required;
    let is_new = old.is_none() && !is_known(clique) && counts.outdated == 0;
    let ends = |is_unchanged: bool| (is_done || is_new || is_unchanged || !target.has_turn()).then_some(Time(now));
    match old {
        Some(old) if target.is_of(&old) => {
            // The turn may come later than the template.
            let is_open_again = target.has_turn() && counts.outdated > 0;
            let before = old.update_ended_at.filter(|_| !is_open_again);
            Some(PodCliqueUpdateProgress { update_ended_at: before.or_else(|| ends(false)), ..old })
        }
        other => Some(PodCliqueUpdateProgress {
            update_started_at: Some(Time(now)),
            // Only another clique of the set has changed.
            update_ended_at: ends(
                other.is_some_and(|old| old.pod_template_hash == target.pods) && counts.outdated == 0,
            ),
            pod_clique_set_generation_hash: target.generation.to_owned(),
            pod_template_hash: target.pods.to_owned(),
            ready_pods_selected_to_update: None,
        }),
    }
}

/// Whether all pods of the clique were created from another template of the set.
fn has_other_template(clique: &PodClique, target: Target<'_>) -> bool {
    let status = clique.status.as_ref();
    let generation = status.and_then(|status| status.current_pod_clique_set_generation_hash.as_ref());
    generation.is_some_and(|generation| generation != target.generation)
}

/// Whether the clique has had pods of a known template.
fn is_known(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| status.current_pod_template_hash.is_some())
}
