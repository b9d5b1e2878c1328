//! What a gang is told: where it is in its life, as far as its cliques say.

use grove_api_types::conditions::{self, initialized, ready};
use grove_api_types::scheduler_v1alpha1::{PodGangPhase, PodGangStatus, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::conditions::{Verdict, is_true, set_condition};
use grove_runtime::pace::Tidings;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The status of the gang.
pub fn status(seen: &Observed, now: Timestamp) -> PodGangStatus {
    let Observed { gang, cliques, has_set: _ } = seen;
    let old = gang.status.clone().unwrap_or_default();
    let all = |holds: fn(&PodClique, &PodGroup) -> bool| {
        gang.spec.podgroups.iter().all(|group| cliques.get(&group.name).is_some_and(|clique| holds(clique, group)))
    };
    let generation = gang.metadata.generation;
    let mut conditions = old.conditions;
    let initialized = is_true(&conditions, conditions::INITIALIZED) || all(has_all_pods);
    set_condition(&mut conditions, initialization(initialized, generation), now);
    set_condition(&mut conditions, readiness(all(is_ready), generation), now);
    let phase = match (all(is_scheduled), all(is_ready)) {
        (_, true) => PodGangPhase::Running,
        (true, false) => PodGangPhase::Starting,
        (false, false) => PodGangPhase::Pending,
    };
    PodGangStatus { phase, conditions, placement_score: old.placement_score }
}

/// That a gang runs, or runs no longer, is news; how it comes to run is progress.
pub fn tidings(old: Option<&PodGangStatus>, new: &PodGangStatus) -> Tidings {
    let runs = |status: &PodGangStatus| status.phase == PodGangPhase::Running;
    let is_same = old == Some(new);
    if is_same || runs(new) || old.is_some_and(runs) { Tidings::News } else { Tidings::Progress }
}

fn has_all_pods(clique: &PodClique, group: &PodGroup) -> bool {
    usize::try_from(clique.spec.replicas).is_ok_and(|replicas| group.pod_references.len() >= replicas)
}

fn is_scheduled(clique: &PodClique, group: &PodGroup) -> bool {
    clique.status.as_ref().is_some_and(|status| status.scheduled_replicas >= group.min_replicas)
}

fn is_ready(clique: &PodClique, group: &PodGroup) -> bool {
    clique.status.as_ref().is_some_and(|status| status.ready_replicas >= group.min_replicas)
}

/// Once true it stays so: a gang whose pods have all existed is known to schedulers.
fn initialization(holds: bool, observed_generation: Option<i64>) -> Verdict {
    let (reason, message) = if holds {
        (initialized::CREATED, "PodGang is fully initialized")
    } else {
        (initialized::PENDING, "Not all constituent pods have been created yet")
    };
    let type_ = conditions::INITIALIZED;
    Verdict { type_, status: holds.into(), reason: reason.to_owned(), message: message.to_owned(), observed_generation }
}

fn readiness(holds: bool, observed_generation: Option<i64>) -> Verdict {
    let (reason, message) = if holds {
        (ready::SUFFICIENT, "every clique has its minimum of ready pods")
    } else {
        (ready::INSUFFICIENT, "some clique has fewer ready pods than its minimum")
    };
    let type_ = conditions::READY;
    Verdict { type_, status: holds.into(), reason: reason.to_owned(), message: message.to_owned(), observed_generation }
}
