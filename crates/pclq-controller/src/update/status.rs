//! The progress of the update of a clique. Pure.

use grove_api_types::conditions::UPDATE_IN_PROGRESS;
use grove_api_types::rolling_update::UpdateBounds;
use grove_api_types::text::shortened;
use grove_api_types::v1alpha1::{PodClique, PodCliqueUpdateProgress};
use grove_controller::conditions::find_status_condition;
use grove_controller::update_in_progress::{UpdateState, deadline_message, was_paused};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::plan::{Target, exceeded_at, is_member, last_progress};
use crate::observed::ObservedClique;

/// The condition has this many characters of the kubelet's message.
const MAX_MESSAGE: usize = 300;

/// How many pods of a clique are in which state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCounts {
    /// The live pods.
    pub(crate) live: i32,
    /// Those that the update replaces.
    pub(crate) outdated: i32,
    /// Those that have been ready for `minReadySeconds`.
    pub(crate) available: i32,
}

/// The progress of the current or the last update. It ends when all pods are new and enough of them are ready, and at once for a new clique and
/// if the user replaces the pods. As in the Go operator, a new clique of a scaling group has none.
pub(crate) fn progress(
    observed: &ObservedClique,
    counts: PodCounts,
    now: Timestamp,
) -> Option<PodCliqueUpdateProgress> {
    let clique = &observed.clique;
    let old = clique.status.as_ref().and_then(|status| status.update_progress.clone());
    let Some(target) = Target::of(clique) else { return old };
    if old.is_none() && counts.outdated == 0 && is_member(clique) && !has_other_template(clique, target) {
        return None;
    }
    let required = clique.spec.required_replicas();
    let is_done = counts.outdated == 0 && counts.live >= required && counts.available >= required;
    let is_new = old.is_none() && !is_known(clique) && counts.outdated == 0;
    let ends = |is_unchanged: bool| (is_done || is_new || is_unchanged || !target.has_turn()).then_some(Time(now));
    match old {
        Some(old) if target.is_of(&old) => {
            // The turn may come later than the template.
            let is_open_again = target.has_turn() && counts.outdated > 0;
            let before = old.update_ended_at.filter(|_| !is_open_again);
            let resumed = is_resumed(clique).then_some(Time(now));
            let progressed = last_progress(observed).map(Time).filter(|_| before.is_none());
            let last = old.last_progressed_at.into_iter().chain(resumed).chain(progressed).max();
            let ended = before.or_else(|| ends(false));
            Some(PodCliqueUpdateProgress { update_ended_at: ended, last_progressed_at: last, ..old })
        }
        other => {
            // Only another clique of the set has changed.
            let is_unchanged = other.is_some_and(|old| old.pod_template_hash == target.pods) && counts.outdated == 0;
            let ended = ends(is_unchanged);
            Some(PodCliqueUpdateProgress {
                update_started_at: Some(Time(now)),
                last_progressed_at: ended.is_none().then_some(Time(now)),
                update_ended_at: ended,
                pod_clique_set_generation_hash: target.generation.to_owned(),
                pod_template_hash: target.pods.to_owned(),
                ready_pods_selected_to_update: None,
            })
        }
    }
}

/// Whether the user has just continued the update.
fn is_resumed(clique: &PodClique) -> bool {
    let was_paused = clique.status.as_ref().is_some_and(|status| was_paused(&status.conditions));
    was_paused && UpdateBounds::of(clique).is_ok_and(|bounds| !bounds.paused)
}

/// The state of the update; `None` before the first one. `cause` is why the API server rejects a new pod, or why the scheduler does not bind one.
pub(crate) fn state(
    observed: &ObservedClique,
    progress: Option<&PodCliqueUpdateProgress>,
    cause: impl FnOnce() -> Option<String>,
) -> Option<UpdateState> {
    let has_condition = || {
        let conditions = observed.clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        find_status_condition(conditions, UPDATE_IN_PROGRESS).is_some()
    };
    let Some(progress) = progress.filter(|progress| progress.is_in_progress()) else {
        return has_condition().then_some(UpdateState::Ended);
    };
    let bounds = match UpdateBounds::of(&observed.clique) {
        Ok(bounds) => bounds,
        Err(error) => return Some(UpdateState::Blocked(error.message("pclq-controller"))),
    };
    if bounds.paused {
        return Some(UpdateState::Paused);
    }
    let is_exceeded = exceeded_at(progress, &bounds).is_some_and(|time| time <= observed.now);
    let blocked = cause().or_else(|| failing_pod(observed)).or_else(|| unready_pod(observed).filter(|_| is_exceeded));
    Some(match (bounds.of_clique.progress_deadline.filter(|_| is_exceeded), blocked) {
        (Some(deadline), blocked) => UpdateState::DeadlineExceeded(deadline_message(&deadline, blocked.as_deref())),
        (None, Some(blocked)) => UpdateState::Blocked(blocked),
        (None, None) => UpdateState::Progressing("the pods are being replaced".to_owned()),
    })
}

/// What the kubelet reports about a new pod that is not ready. A container that ends again and again has one message, also while it runs.
fn failing_pod(observed: &ObservedClique) -> Option<String> {
    let target = Target::of(&observed.clique)?;
    let new = || target.new_pods(observed).filter(|pod| !pod.is_ready());
    if let Some((pod, container)) = new().find_map(|pod| Some((pod, pod.restarted_container()?))) {
        return Some(format!(
            "Pod {} is not ready: container {} ended and was restarted",
            pod.name_any(),
            container.name
        ));
    }
    let (pod, (container, waiting)) = new().find_map(|pod| Some((pod, pod.failing_container()?)))?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let (pod, container, message) = (pod.name_any(), &container.name, details(waiting.message.as_deref()));
    Some(format!("Pod {pod} does not start: container {container}: {reason}{message}"))
}

/// What the kubelet reports about a new pod that has started and is not ready.
fn unready_pod(observed: &ObservedClique) -> Option<String> {
    let pod = Target::of(&observed.clique)?.new_pods(observed).find(|pod| !pod.is_ready())?;
    let message = details(pod.condition("Ready").and_then(|condition| condition.message.as_deref()));
    Some(format!("Pod {} is not ready{message}", pod.name_any()))
}

/// The message of the kubelet as the end of a sentence; empty if it has none.
fn details(message: Option<&str>) -> String {
    message.map(|message| format!(": {}", shortened(message, MAX_MESSAGE))).unwrap_or_default()
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
