//! The progress of the updates of sets and scaling groups. Pure.

use grove_api_types::conditions::{self, update_in_progress};
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::{
    PodCliqueScalingGroupStatus, PodCliqueScalingGroupUpdateProgress, PodCliqueSet, PodCliqueSetReplicaUpdateProgress,
    PodCliqueSetUpdateProgress,
};
use grove_controller::conditions::ConditionUpdate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::turns::{has_other_template, is_in_progress};

/// The message has this many names; it only counts the others.
const MAX_NAMED: usize = 5;

/// What the progress of a set is computed from.
#[derive(Clone, Debug)]
pub(crate) struct SetFacts<'a> {
    /// The hash of its template.
    pub(crate) hash: &'a str,
    /// Whether a replica waits for its turn.
    pub(crate) has_waiting_replicas: bool,
    /// The replicas that have had their turn, and that are not complete.
    pub(crate) updating: Vec<i32>,
    /// The number of standalone cliques with the current template, and of all.
    pub(crate) cliques: (i32, i32),
    /// The number of scaling groups with the current templates, and of all.
    pub(crate) groups: (i32, i32),
}

/// The progress of the current or the last update; `None` for a set that has never been updated. With `OnDelete`, an update ends at once, because
/// the user replaces the pods.
pub(crate) fn set_progress(
    set: &PodCliqueSet,
    facts: &SetFacts<'_>,
    now: Timestamp,
) -> Option<PodCliqueSetUpdateProgress> {
    let status = set.status.clone().unwrap_or_default();
    let is_rolling = !set.spec.is_updated_on_delete();
    let is_forgotten = is_rolling && facts.has_waiting_replicas && !is_in_progress(&status);
    let begins = has_other_template(&status, facts.hash) || is_forgotten;
    let old = status.update_progress;
    let mut progress = if begins {
        PodCliqueSetUpdateProgress { update_started_at: Some(Time(now)), ..PodCliqueSetUpdateProgress::default() }
    } else {
        old?
    };
    let is_done = !facts.has_waiting_replicas && facts.updating.is_empty();
    if !is_rolling || (is_done && !begins) {
        progress.update_ended_at = progress.update_ended_at.or(Some(Time(now)));
    }
    let is_current = progress.update_ended_at.is_none();
    let before = std::mem::take(&mut progress.currently_updating);
    let entry = |index: &i32| {
        let old = before.iter().find(|old| old.replica_index == *index).cloned();
        let begun = || PodCliqueSetReplicaUpdateProgress {
            replica_index: *index,
            update_started_at: Some(Time(now)),
            update_ended_at: None,
        };
        old.unwrap_or_else(begun)
    };
    progress.currently_updating = facts.updating.iter().filter(|_| is_current).map(entry).collect();
    (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) = facts.cliques;
    (progress.updated_pod_clique_scaling_groups_count, progress.total_pod_clique_scaling_groups_count) = facts.groups;
    Some(progress)
}

/// The condition `UpdateInProgress` of a set that has been updated. `incomplete` are the cliques and scaling groups that the update waits for. The
/// message has no counts of pods, which are in the conditions of these objects, so that it seldom changes.
pub(crate) fn set_condition(
    progress: &PodCliqueSetUpdateProgress,
    incomplete: impl FnOnce() -> Vec<String>,
    observed_generation: Option<i64>,
) -> ConditionUpdate {
    let is_active = progress.update_ended_at.is_none();
    let (reason, message) = if is_active {
        let names = incomplete();
        let waiting = if names.is_empty() { "the next replica".to_owned() } else { join_names(&names, MAX_NAMED) };
        (update_in_progress::PROGRESSING, format!("the pods are being replaced; the update waits for {waiting}"))
    } else {
        (update_in_progress::NO_ACTIVE_UPDATE, "no update is in progress".to_owned())
    };
    ConditionUpdate {
        type_: conditions::UPDATE_IN_PROGRESS,
        status: is_active.into(),
        reason: reason.to_owned(),
        message,
        observed_generation,
    }
}

/// What the progress of a scaling group is computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupFacts<'a> {
    /// The hash of the template that the set has chosen for it.
    pub(crate) hash: &'a str,
    /// Whether Grove replaces its pods.
    pub(crate) is_rolling: bool,
    /// Whether a replica waits for its turn.
    pub(crate) has_waiting_replicas: bool,
    /// Whether all replicas have this template, and are available.
    pub(crate) is_complete: bool,
    /// The number of its cliques with this template, and of all.
    pub(crate) cliques: (i32, i32),
}

/// The progress of the current or the last update of a scaling group; `None` for one that has never been updated. It ends when all replicas are new
/// and available, and at once if the user replaces the pods.
pub(crate) fn group_progress(
    status: Option<&PodCliqueScalingGroupStatus>,
    facts: &GroupFacts<'_>,
    now: Timestamp,
) -> Option<PodCliqueScalingGroupUpdateProgress> {
    let status = status?;
    let old = status.update_progress.as_ref().filter(|old| old.pod_clique_set_generation_hash == facts.hash);
    let begun = || {
        let current = status.current_pod_clique_set_generation_hash.as_ref();
        let has_other = status.update_progress.is_some() || current.is_some_and(|current| current != facts.hash);
        let begins = has_other || facts.has_waiting_replicas;
        begins.then(|| PodCliqueScalingGroupUpdateProgress {
            update_started_at: Time(now),
            update_ended_at: None,
            pod_clique_set_generation_hash: facts.hash.to_owned(),
            updated_pod_cliques_count: 0,
            total_pod_cliques_count: 0,
            ready_replica_indices_selected_to_update: None,
        })
    };
    let mut progress = old.cloned().or_else(begun)?;
    if (facts.is_complete && old.is_some()) || !facts.is_rolling {
        progress.update_ended_at = progress.update_ended_at.or(Some(Time(now)));
    }
    (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) = facts.cliques;
    Some(progress)
}
