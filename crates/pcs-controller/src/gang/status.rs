//! The status of a gang: its phase and conditions, derived from the status of its cliques. When it is written:
//! `grove-controller/src/status_limiter.rs`.

use grove_api_types::conditions::{self, initialized, ready};
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGangPhase, PodGangStatus};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::conditions::{ConditionUpdate, is_status_condition_true, set_status_condition};
use grove_controller::status_limiter::StatusChange;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The status of the gang.
pub(crate) fn status(observed: &Observed, now: Timestamp) -> PodGangStatus {
    let Observed { gang, cliques, has_active_set: _ } = observed;
    let old = gang.status.clone().unwrap_or_default();
    let all = |holds: fn(&PodClique, &GangPodGroup) -> bool| {
        gang.spec.podgroups.iter().all(|group| cliques.get(&group.name).is_some_and(|clique| holds(clique, group)))
    };
    let mut conditions = old.conditions;
    let initialized = is_status_condition_true(&conditions, conditions::INITIALIZED) || all(has_all_pods);
    set_status_condition(&mut conditions, initialized_condition(initialized), now);
    set_status_condition(&mut conditions, ready_condition(all(is_ready)), now);
    let phase = match (all(is_scheduled), all(is_ready)) {
        (_, true) => PodGangPhase::Running,
        (true, false) => PodGangPhase::Starting,
        (false, false) => PodGangPhase::Pending,
    };
    PodGangStatus { phase, conditions, placement_score: old.placement_score }
}

/// A change is significant if the gang was running before, and the gang is being started until it runs, also while an update replaces its pods.
/// The set reports its availability without the status of its gangs.
pub(crate) fn status_change(observed: &Observed, new: &PodGangStatus) -> StatusChange {
    let is_running = |status: &PodGangStatus| status.phase == PodGangPhase::Running;
    match observed.gang.status.as_ref() {
        Some(old) if is_running(old) && !is_running(new) && observed.is_updating() => StatusChange::Starting,
        Some(old) if is_running(old) => StatusChange::Significant,
        _ if is_running(new) => StatusChange::Minor,
        _ => StatusChange::Starting,
    }
}

fn has_all_pods(clique: &PodClique, group: &GangPodGroup) -> bool {
    usize::try_from(clique.spec.replicas).is_ok_and(|replicas| group.pod_references.len() >= replicas)
}

fn required(clique: &PodClique, group: &GangPodGroup) -> i32 {
    group.required_replicas(Some(clique.spec.replicas))
}

fn is_scheduled(clique: &PodClique, group: &GangPodGroup) -> bool {
    clique.status.as_ref().is_some_and(|status| status.scheduled_replicas >= required(clique, group))
}

fn is_ready(clique: &PodClique, group: &GangPodGroup) -> bool {
    clique.status.as_ref().is_some_and(|status| status.ready_replicas >= required(clique, group))
}

/// Once true, the condition stays true: it reports that all pods of the gang have existed at some time.
fn initialized_condition(holds: bool) -> ConditionUpdate {
    let (reason, message) = if holds {
        (initialized::POD_GANG_PODS_CREATED, "PodGang is fully initialized")
    } else {
        (initialized::POD_GANG_PODS_CREATION_PENDING, "Not all constituent pods have been created yet")
    };
    condition(conditions::INITIALIZED, holds, (reason, message))
}

fn ready_condition(holds: bool) -> ConditionUpdate {
    let (reason, message) = if holds {
        (ready::SUFFICIENT_READY_PODS, "every clique has its minimum of ready pods")
    } else {
        (ready::INSUFFICIENT_READY_PODS, "some clique has fewer ready pods than its minimum")
    };
    condition(conditions::READY, holds, (reason, message))
}

/// Without a generation, as in the Go operator: each pod reference is a new one, and says nothing about the conditions.
fn condition(type_: &'static str, holds: bool, (reason, message): (&str, &str)) -> ConditionUpdate {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    ConditionUpdate { type_, status: holds.into(), reason, message, observed_generation: None }
}
