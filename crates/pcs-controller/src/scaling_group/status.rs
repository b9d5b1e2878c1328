//! What a scaling group says of itself: how many of its replicas are scheduled, serve, and are up to date.

use grove_api_types::conditions::{self, available, breached};
use grove_api_types::expansion::{Clique, ScalingGroup};
use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{LastError, PodClique, PodCliqueScalingGroupStatus};
use grove_runtime::conditions::{ConditionStatus, Verdict, find_condition, is_true, set_condition};
use grove_runtime::executor::Done;
use grove_runtime::pace::Tidings;
use grove_runtime::plan::Plan;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observed::Observed;
use crate::children::Revision;
use crate::children::{clique, refusals, too_large};

/// How many replicas of a group are as they should be.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    scheduled: i32,
    available: i32,
    updated: i32,
    /// All cliques there and none of them in breach.
    whole: i32,
    /// Every clique that should be there was made from the current templates, and so were its pods.
    all_current: bool,
}

/// The status of the group after `done`.
pub fn status(seen: &Observed, plan: &Plan, done: &Done, now: Timestamp) -> PodCliqueScalingGroupStatus {
    let old = seen.group.status.clone().unwrap_or_default();
    if seen.is_too_large() {
        return of_too_large(seen, old, now);
    }
    let revision = seen.set.as_ref().map(|set| Revision::of(&set.spec.template));
    let wanted = seen.set.as_ref().and_then(|set| seen.wanted(set));
    let group = wanted.as_ref().and_then(|replica| seen.of_group(replica));
    let tally = group.zip(revision.as_ref()).map(|(group, revision)| tally(seen, group, revision)).unwrap_or_default();
    let errors = refusals::errors(done, &seen.refused, &seen.claims(&seen.base_labels()));
    let is_done = done.succeeded() && seen.refused.children.is_empty();
    let mut conditions = old.conditions;
    set_condition(&mut conditions, breach(seen, tally), now);
    set_condition(&mut conditions, availability(seen, tally, plan, done), now);
    PodCliqueScalingGroupStatus {
        observed_generation: if is_done { seen.group.metadata.generation } else { old.observed_generation },
        last_errors: LastError::after(&old.last_errors, errors, &Time(now)),
        replicas: Some(seen.group.spec.replicas),
        scheduled_replicas: tally.scheduled,
        available_replicas: tally.available,
        updated_replicas: tally.updated,
        selector: selector(seen),
        conditions,
        current_pod_clique_set_generation_hash: match revision {
            Some(revision) if tally.all_current => Some(revision.generation),
            _ => old.current_pod_clique_set_generation_hash,
        },
        update_progress: old.update_progress,
    }
}

/// What there is stays, and is not counted.
fn of_too_large(seen: &Observed, old: PodCliqueScalingGroupStatus, now: Timestamp) -> PodCliqueScalingGroupStatus {
    let (mut conditions, waiting) = (old.conditions, too_large());
    let (reason, message) = (waiting.reason, waiting.message);
    set_condition(&mut conditions, verdict(seen, conditions::AVAILABLE, ConditionStatus::False, reason, message), now);
    let (observed_generation, replicas) = (seen.group.metadata.generation, Some(seen.group.spec.replicas));
    PodCliqueScalingGroupStatus { observed_generation, replicas, conditions, ..old }
}

/// That a group serves, no longer does, has all it was asked to have, or was refused something, is news.
pub fn tidings(old: Option<&PodCliqueScalingGroupStatus>, new: &PodCliqueScalingGroupStatus) -> Tidings {
    let serves = |status: &PodCliqueScalingGroupStatus| is_true(&status.conditions, conditions::AVAILABLE);
    let is_complete = Some(new.available_replicas) == new.replicas && new.updated_replicas == new.available_replicas;
    let errors = old.map(|old| old.last_errors.as_slice()).unwrap_or_default();
    let turned = old.is_some_and(serves) != serves(new);
    let is_same = old == Some(new);
    if is_same || turned || is_complete || errors != new.last_errors { Tidings::News } else { Tidings::Progress }
}

fn tally(seen: &Observed, group: &ScalingGroup<'_>, revision: &Revision) -> Tally {
    let mut tally = Tally { all_current: true, ..Tally::default() };
    for member in &group.members {
        let there = |holds: &dyn Fn(&PodClique, &Clique<'_>) -> bool| {
            let holds = |wanted: &Clique<'_>| {
                clique::standing(&seen.cliques, &wanted.name).is_some_and(|standing| holds(standing, wanted))
            };
            member.cliques.iter().all(holds)
        };
        let scheduled = there(&|clique, _| is_scheduled(clique));
        let available = scheduled && there(&|clique, _| clique::is_available(clique));
        let current = there(&|clique, wanted| clique::is_current(clique, revision, &wanted.template.name));
        tally.scheduled += i32::from(scheduled);
        tally.available += i32::from(available);
        tally.updated += i32::from(available && current);
        tally.whole += i32::from(there(&|clique, _| is_whole(clique)));
        tally.all_current &= current;
    }
    tally
}

fn is_scheduled(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| is_true(&status.conditions, conditions::POD_CLIQUE_SCHEDULED))
}

/// A clique that says nothing yet is not whole, so that a new group does not look as if it had been healthy once.
fn is_whole(clique: &PodClique) -> bool {
    let conditions = clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find_condition(conditions, conditions::MIN_AVAILABLE_BREACHED).is_some_and(|breached| breached.status != "True")
}

fn breach(seen: &Observed, tally: Tally) -> Verdict {
    let (whole, needed) = (tally.whole, seen.group.spec.min_available.unwrap_or(1));
    let (status, reason, message) = if whole < needed {
        let message = format!("PCSG replicas not in breach ({whole}) below MinAvailable ({needed})");
        (ConditionStatus::True, breached::INSUFFICIENT_REPLICAS, message)
    } else {
        let message = format!("PCSG replicas not in breach ({whole}) meets MinAvailable ({needed})");
        (ConditionStatus::False, breached::SUFFICIENT_REPLICAS, message)
    };
    verdict(seen, conditions::MIN_AVAILABLE_BREACHED, status, reason, message)
}

fn availability(seen: &Observed, tally: Tally, plan: &Plan, done: &Done) -> Verdict {
    let spec = &seen.group.spec;
    let mut text = format!("{} of {} replicas are available", tally.available, spec.replicas);
    let waiting = plan.waiting.first();
    if let Some(waiting) = waiting {
        text = format!("{text}; {}", waiting.message);
    }
    let refused = refusals::by_server(done, &seen.refused);
    let (holds, reason) = match (refused, waiting) {
        _ if tally.available >= spec.needed() => (true, available::SUFFICIENT),
        (Some(refused), _) => {
            text = format!("{text}; {refused}");
            (false, available::REFUSED)
        }
        (None, Some(waiting)) => (false, waiting.reason),
        (None, None) => (false, available::UNAVAILABLE),
    };
    verdict(seen, conditions::AVAILABLE, holds.into(), reason, text)
}

fn verdict(seen: &Observed, type_: &'static str, status: ConditionStatus, reason: &str, message: String) -> Verdict {
    let observed_generation = seen.group.metadata.generation;
    Verdict { type_, status, reason: reason.to_owned(), message, observed_generation }
}

/// The selector of the pods, for autoscalers.
fn selector(seen: &Observed) -> Option<String> {
    let set = PodCliqueSetName::new(seen.group.labels().get(labels::PART_OF)?);
    let mut selected = labels::base(&set);
    selected.extend(labels::of([(labels::SCALING_GROUP, seen.name().as_str())]));
    Some(labels::selector(&selected))
}
