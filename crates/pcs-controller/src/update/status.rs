//! The progress of the updates of sets and scaling groups. Pure.

use grove_api_types::conditions::{UPDATE_IN_PROGRESS, update_in_progress};
use grove_api_types::duration::GoDuration;
use grove_api_types::names::PodCliqueName;
use grove_api_types::rolling_update::deadline;
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::{
    PodClique, PodCliqueScalingGroupStatus, PodCliqueScalingGroupUpdateProgress, PodCliqueSet,
    PodCliqueSetReplicaUpdateProgress, PodCliqueSetUpdateProgress,
};
use grove_controller::children::ObservedChildren;
use grove_controller::conditions::{ConditionUpdate, find_status_condition};
use grove_controller::update_in_progress::{UpdateState, deadline_message, was_paused};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

use super::turns::has_other_template;
use crate::children::clique;

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
    let is_forgotten = is_rolling && facts.has_waiting_replicas && !status.is_updating();
    let begins = has_other_template(&status, facts.hash) || is_forgotten;
    let is_resumed = was_paused(&status.conditions) && !set.spec.rolling_update().paused;
    let old = status.update_progress;
    let mut progress = if begins {
        PodCliqueSetUpdateProgress {
            update_started_at: Some(Time(now)),
            last_progressed_at: Some(Time(now)),
            ..PodCliqueSetUpdateProgress::default()
        }
    } else {
        old?
    };
    let is_done = !facts.has_waiting_replicas && facts.updating.is_empty();
    if !is_rolling || (is_done && !begins) {
        progress.update_ended_at = progress.update_ended_at.or(Some(Time(now)));
    }
    let is_current = progress.is_in_progress();
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
    let before = (progress.updated_pod_cliques_count, progress.updated_pod_clique_scaling_groups_count);
    if is_current && (facts.cliques.0 > before.0 || facts.groups.0 > before.1 || is_resumed) {
        progress.last_progressed_at = Some(Time(now));
    }
    (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) = facts.cliques;
    (progress.updated_pod_clique_scaling_groups_count, progress.total_pod_clique_scaling_groups_count) = facts.groups;
    Some(progress)
}

/// The condition `UpdateInProgress` of a set that has been updated. `awaited` are the objects that the update waits for.
pub(crate) fn set_condition(
    set: &PodCliqueSet,
    progress: &PodCliqueSetUpdateProgress,
    awaited: impl FnOnce() -> Vec<Awaited>,
) -> ConditionUpdate {
    let state = match progress.update_ended_at {
        Some(_) => UpdateState::Ended,
        None if set.spec.rolling_update().paused => UpdateState::Paused,
        None => state_of_awaited(&awaited()),
    };
    state.condition(set.metadata.generation)
}

/// A clique or a scaling group that an update waits for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    /// Its kind and its name.
    name: String,
    /// Its condition `UpdateInProgress`.
    condition: Option<Condition>,
}

impl Awaited {
    /// The object of this name, if it exists, with these conditions.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(name: &str, conditions: Option<&[Condition]>) -> Self {
        let condition = conditions.and_then(|conditions| find_status_condition(conditions, UPDATE_IN_PROGRESS));
        Self { name: format!("{} {name}", K::kind(&())), condition: condition.cloned() }
    }

    /// The clique of this name.
    pub(crate) fn of_clique(children: &ObservedChildren, name: &PodCliqueName) -> Self {
        let status = clique::active(children, name).and_then(|clique| clique.status.as_ref());
        Self::new::<PodClique>(name.as_str(), status.map(|status| &*status.conditions))
    }

    /// Why its update stops, if this is the reason.
    fn cause(&self, reason: &str) -> Option<String> {
        let condition = self.condition.as_ref().filter(|condition| condition.reason == reason)?;
        Some(format!("{}: {}", self.name, condition.message))
    }
}

/// What the awaited objects report; their names if they report nothing special. The message has no counts of pods, which are in the conditions of
/// these objects, so that it seldom changes.
fn state_of_awaited(awaited: &[Awaited]) -> UpdateState {
    let first = |reason: &str| awaited.iter().find_map(|awaited| awaited.cause(reason));
    if let Some(cause) = first(update_in_progress::PROGRESS_DEADLINE_EXCEEDED) {
        return UpdateState::DeadlineExceeded(cause);
    }
    if let Some(cause) = first(update_in_progress::BLOCKED) {
        return UpdateState::Blocked(cause);
    }
    let names: Vec<_> = awaited.iter().map(|awaited| awaited.name.as_str()).collect();
    let waiting = if names.is_empty() { "the next replica".to_owned() } else { join_names(&names, MAX_NAMED) };
    UpdateState::Progressing(format!("the pods are being replaced; the update waits for {waiting}"))
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
/// and available, and at once if the user replaces the pods. `is_paused` is whether the user has paused the set.
pub(crate) fn group_progress(
    status: Option<&PodCliqueScalingGroupStatus>,
    facts: &GroupFacts<'_>,
    is_paused: bool,
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
            last_progressed_at: Some(Time(now)),
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
    let is_resumed = was_paused(&status.conditions) && !is_paused;
    let has_progressed = facts.cliques.0 > progress.updated_pod_cliques_count || is_resumed;
    if progress.is_in_progress() && has_progressed {
        progress.last_progressed_at = Some(Time(now));
    }
    (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) = facts.cliques;
    Some(progress)
}

/// The condition `UpdateInProgress` of a scaling group that has been updated. `bounds` has the deadline and whether the set is paused.
pub(crate) fn group_condition(
    (progress, observed_generation): (&PodCliqueScalingGroupUpdateProgress, Option<i64>),
    (progress_deadline, is_paused): (Option<&GoDuration>, bool),
    awaited: impl FnOnce() -> Vec<Awaited>,
    now: Timestamp,
) -> ConditionUpdate {
    let is_exceeded = group_deadline(progress, progress_deadline).is_some_and(|time| time <= now);
    let state = match progress.update_ended_at {
        Some(_) => UpdateState::Ended,
        None if is_paused => UpdateState::Paused,
        None => match (progress_deadline.filter(|_| is_exceeded), state_of_awaited(&awaited())) {
            (Some(deadline), UpdateState::Blocked(cause)) => {
                UpdateState::DeadlineExceeded(deadline_message(deadline, Some(&cause)))
            }
            (Some(deadline), _) => UpdateState::DeadlineExceeded(deadline_message(deadline, None)),
            (None, state) => state,
        },
    };
    state.condition(observed_generation)
}

/// When the update of the scaling group exceeds its deadline.
pub(crate) fn group_deadline(
    progress: &PodCliqueScalingGroupUpdateProgress,
    progress_deadline: Option<&GoDuration>,
) -> Option<Timestamp> {
    let last = progress.last_progressed_at.as_ref().unwrap_or(&progress.update_started_at);
    deadline(last.0, progress_deadline).filter(|_| progress.is_in_progress())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A clique that an update waits for, with the reason and the message of its condition.
    fn awaited(name: &str, reason: &str, message: &str) -> Awaited {
        let condition = json!({ "type": UPDATE_IN_PROGRESS, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        Awaited::new::<PodClique>(name, Some(&[serde_json::from_value(condition).unwrap()]))
    }

    fn text(condition: &ConditionUpdate) -> String {
        format!("{} {}: {}", condition.status.as_str(), condition.reason, condition.message)
    }

    #[track_caller]
    fn check_set(rolling_update: &Value, has_ended: bool, awaited: Vec<Awaited>, expected: &Expect) {
        let spec = json!({ "updateStrategy": { "type": "RollingRecreate", "rollingUpdate": rolling_update },
            "template": { "cliques": [] } });
        let set = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        let update_ended_at = has_ended.then_some(Time(at(0)));
        let progress = PodCliqueSetUpdateProgress { update_ended_at, ..PodCliqueSetUpdateProgress::default() };
        expected.assert_eq(&text(&set_condition(&set, &progress, || awaited)));
    }

    #[test]
    fn a_set_reports_what_its_cliques_and_groups_report() {
        let one = || awaited("s-0-a", "Progressing", "m");
        let blocked = || awaited("s-0-b", "Blocked", "Pod p does not start");
        let exceeded = || awaited("s-0-c", "ProgressDeadlineExceeded", "no progress for 10m");
        let unknown = Awaited::new::<PodClique>("s-0-d", None);
        check_set(
            &json!(null),
            false,
            vec![],
            &expect!["True Progressing: the pods are being replaced; the update waits for the next replica"],
        );
        check_set(
            &json!(null),
            false,
            vec![one(), unknown],
            &expect![
                "True Progressing: the pods are being replaced; the update waits for PodClique s-0-a, PodClique s-0-d"
            ],
        );
        check_set(
            &json!(null),
            false,
            vec![one(), blocked()],
            &expect!["True Blocked: PodClique s-0-b: Pod p does not start"],
        );
        check_set(
            &json!(null),
            false,
            vec![one(), blocked(), exceeded()],
            &expect!["Unknown ProgressDeadlineExceeded: PodClique s-0-c: no progress for 10m"],
        );
        check_set(
            &json!({ "paused": true }),
            false,
            vec![exceeded()],
            &expect![
                "True Paused: the update is paused; set spec.updateStrategy.rollingUpdate.paused of the set to false to continue it"
            ],
        );
        check_set(&json!(null), true, vec![exceeded()], &expect!["False NoActiveUpdate: no update is in progress"]);
    }

    #[test]
    fn a_scaling_group_reports_its_deadline() {
        let check = |now: i64, is_paused: bool, awaited: Vec<Awaited>, expected: &Expect| {
            let progress = PodCliqueScalingGroupUpdateProgress {
                update_started_at: Time(at(0)),
                update_ended_at: None,
                last_progressed_at: Some(Time(at(100))),
                pod_clique_set_generation_hash: "1a".to_owned(),
                updated_pod_cliques_count: 0,
                total_pod_cliques_count: 2,
                ready_replica_indices_selected_to_update: None,
            };
            let bounds = (Some(&GoDuration::new("1m")), is_paused);
            expected.assert_eq(&text(&group_condition((&progress, None), bounds, || awaited, at(now))));
        };
        let blocked = || awaited("s-0-g-0-a", "Blocked", "Pod p does not start");
        check(159, false, vec![blocked()], &expect!["True Blocked: PodClique s-0-g-0-a: Pod p does not start"]);
        check(
            160,
            false,
            vec![blocked()],
            &expect![
                "Unknown ProgressDeadlineExceeded: no progress for the progressDeadline of 1m; PodClique s-0-g-0-a: Pod p does not start"
            ],
        );
        check(
            160,
            false,
            vec![],
            &expect![
                "Unknown ProgressDeadlineExceeded: no progress for the progressDeadline of 1m; the update goes on"
            ],
        );
        check(
            160,
            true,
            vec![],
            &expect![
                "True Paused: the update is paused; set spec.updateStrategy.rollingUpdate.paused of the set to false to continue it"
            ],
        );
    }

    /// Another clique is new, or the user has continued the update.
    #[test]
    fn progress_moves_the_deadline_of_a_scaling_group() {
        let last = |updated: i32, reason: &str| {
            let status = json!({ "scheduledReplicas": 0, "availableReplicas": 1, "updatedReplicas": 0,
                "conditions": [{ "type": UPDATE_IN_PROGRESS, "status": "True", "reason": reason, "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                "updateProgress": { "updateStartedAt": "1970-01-01T00:00:00Z", "lastProgressedAt": "1970-01-01T00:00:10Z",
                    "podCliqueSetGenerationHash": "1a", "updatedPodCliquesCount": 2, "totalPodCliquesCount": 9 } });
            let facts = GroupFacts {
                hash: "1a",
                is_rolling: true,
                has_waiting_replicas: true,
                is_complete: false,
                cliques: (updated, 9),
            };
            let status = serde_json::from_value(status).unwrap();
            let progress = group_progress(Some(&status), &facts, false, at(100)).unwrap();
            progress.last_progressed_at.unwrap().0.as_second()
        };
        assert_eq!(last(2, "Progressing"), 10);
        assert_eq!(last(1, "Progressing"), 10);
        assert_eq!(last(3, "Progressing"), 100);
        assert_eq!(last(2, "Paused"), 100);
    }
}
