//! What a gang is told by its set: where it is in its life, as far as its cliques say. Pure.

use std::sync::Arc;

use grove_api_types::conditions::{self, initialized, ready};
use grove_api_types::core::PodClique;
use grove_api_types::scheduler_group::{PodGang, PodGangPhase, PodGangStatus, PodGroup};
use grove_runtime::conditions::{Verdict, set_condition};
use k8s_openapi::jiff::Timestamp;

use crate::set::observed::Observed;

/// The gangs whose status is not what it should be, with what it should be.
pub fn of_gangs(seen: &Observed, now: Timestamp) -> Vec<(Arc<PodGang>, PodGangStatus)> {
    let told = |gang: &Arc<PodGang>| (Arc::clone(gang), of_gang(seen, gang, now));
    let differs = |(gang, status): &(Arc<PodGang>, PodGangStatus)| gang.status.as_ref() != Some(status);
    let stays = |gang: &&Arc<PodGang>| gang.metadata.deletion_timestamp.is_none();
    seen.gangs.values().filter(stays).map(told).filter(differs).collect()
}

fn of_gang(seen: &Observed, gang: &PodGang, now: Timestamp) -> PodGangStatus {
    let old = gang.status.clone().unwrap_or_default();
    let all = |holds: fn(&PodClique, &PodGroup) -> bool| {
        gang.spec.podgroups.iter().all(|group| seen.clique(&group.name).is_some_and(|clique| holds(clique, group)))
    };
    let generation = gang.metadata.generation;
    let mut conditions = old.conditions;
    let initialized_before = conditions.iter().any(|c| c.type_ == conditions::INITIALIZED && c.status == "True");
    set_condition(&mut conditions, initialization(initialized_before || all(has_all_pods), generation), now);
    set_condition(&mut conditions, readiness(all(is_ready), generation), now);
    let phase = match (all(is_scheduled), all(is_ready)) {
        (_, true) => PodGangPhase::Running,
        (true, false) => PodGangPhase::Starting,
        (false, false) => PodGangPhase::Pending,
    };
    PodGangStatus { phase, conditions, placement_score: old.placement_score }
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
