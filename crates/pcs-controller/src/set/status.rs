//! What a set says of itself: how many of its replicas are there, serve, and are up to date.

use grove_api_types::conditions::{self, available, fields_ignored};
use grove_api_types::expansion::{self, Clique, ScalingGroup, SetReplica};
use grove_api_types::v1alpha1::{LastError, PodCliqueScalingGroup, PodCliqueSetStatus};
use grove_api_types::{labels, unsupported_fields};
use grove_runtime::conditions::{ConditionStatus, Verdict, remove_condition, set_condition};
use grove_runtime::executor::Done;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use crate::children::Revision;
use crate::children::{clique, refusals, too_large};

mod outdated;

/// The status of the set after `done`.
pub fn of_set(seen: &Observed, done: &Done, now: Timestamp) -> PodCliqueSetStatus {
    let old = seen.set.status.clone().unwrap_or_default();
    if seen.is_too_large() {
        return of_too_large(seen, old, now);
    }
    let replicas = expansion::expand(&seen.set, &seen.live());
    let revision = Revision::of(&seen.set.spec.template);
    let available: Vec<_> = replicas.iter().filter(|replica| is_available(seen, replica)).collect();
    let updated = available.iter().filter(|replica| is_updated(seen, &revision, replica)).count();
    let (available, updated) = (as_count(available.len()), as_count(updated));
    let ours = labels::base(&seen.name());
    let errors = refusals::errors(done, &seen.refused, &seen.claims(&ours));
    let refusal = refusals::first(done, &seen.refused, &seen.claims(&ours));
    let is_done = done.succeeded() && seen.refused.children.is_empty();
    let mut conditions = old.conditions;
    set_condition(&mut conditions, availability(seen, available, refusal), now);
    match unsupported_fields::message(&seen.ignored) {
        Some(message) => set_condition(&mut conditions, ignoring(seen, message), now),
        None => remove_condition(&mut conditions, conditions::FIELDS_IGNORED),
    }
    match outdated::message(seen, &revision, &replicas) {
        Some(message) => set_condition(&mut conditions, outdated::verdict(seen, message), now),
        None => remove_condition(&mut conditions, conditions::PODS_OUTDATED),
    }
    PodCliqueSetStatus {
        observed_generation: if is_done { seen.set.metadata.generation } else { old.observed_generation },
        conditions,
        last_errors: LastError::after(&old.last_errors, errors, &Time(now)),
        replicas: Some(seen.set.spec.replicas),
        updated_replicas: updated,
        available_replicas: available,
        hpa_pod_selector: Some(labels::selector(&labels::base(&seen.name()))),
        pod_gang_statuses: Vec::new(),
        update_progress: old.update_progress,
        current_generation_hash: Some(revision.generation),
    }
}

/// What there is stays, and is not counted.
fn of_too_large(seen: &Observed, old: PodCliqueSetStatus, now: Timestamp) -> PodCliqueSetStatus {
    let (mut conditions, waiting) = (old.conditions, too_large());
    let (type_, reason, message) = (conditions::AVAILABLE, waiting.reason.to_owned(), waiting.message);
    let observed_generation = seen.set.metadata.generation;
    set_condition(
        &mut conditions,
        Verdict { type_, status: ConditionStatus::False, reason, message, observed_generation },
        now,
    );
    PodCliqueSetStatus { observed_generation, conditions, replicas: Some(seen.set.spec.replicas), ..old }
}

/// Whether every clique and scaling group of the replica is there with at least its `minAvailable`.
fn is_available(seen: &Observed, replica: &SetReplica<'_>) -> bool {
    let clique = |clique: &Clique<'_>| clique::standing(&seen.cliques, &clique.name).is_some_and(clique::is_available);
    let group = |group: &ScalingGroup<'_>| seen.group(&group.name).is_some_and(group_is_available);
    replica.cliques.iter().all(clique) && replica.groups.iter().all(group)
}

fn group_is_available(group: &PodCliqueScalingGroup) -> bool {
    group.status.as_ref().map_or(0, |status| status.available_replicas) >= group.spec.needed()
}

/// Whether all pods of the replica are made from the templates as they are now.
fn is_updated(seen: &Observed, revision: &Revision, replica: &SetReplica<'_>) -> bool {
    let clique = |wanted: &Clique<'_>| {
        let standing = clique::standing(&seen.cliques, &wanted.name);
        standing.is_some_and(|clique| clique::is_current(clique, revision, &wanted.template.name))
    };
    let reported = |group: &PodCliqueScalingGroup| {
        group.status.as_ref().and_then(|status| status.current_pod_clique_set_generation_hash.clone())
    };
    let group = |group: &ScalingGroup<'_>| {
        seen.group(&group.name).and_then(reported).is_some_and(|hash| hash == revision.generation)
    };
    replica.cliques.iter().all(clique) && replica.groups.iter().all(group)
}

fn availability(seen: &Observed, available: i32, refusal: Option<String>) -> Verdict {
    let wanted = seen.set.spec.replicas;
    let tally = format!("{available} of {wanted} replicas are available");
    let (holds, reason, message) = match refusal {
        _ if available >= wanted => (true, available::SUFFICIENT, tally),
        Some(refusal) => (false, available::REFUSED, format!("{tally}; {refusal}")),
        None => (false, available::UNAVAILABLE, tally),
    };
    Verdict {
        type_: conditions::AVAILABLE,
        status: holds.into(),
        reason: reason.to_owned(),
        message,
        observed_generation: seen.set.metadata.generation,
    }
}

/// Nobody shall rely on what does not happen.
fn ignoring(seen: &Observed, message: String) -> Verdict {
    Verdict {
        type_: conditions::FIELDS_IGNORED,
        status: ConditionStatus::True,
        reason: fields_ignored::NOT_ACTED_ON.to_owned(),
        message,
        observed_generation: seen.set.metadata.generation,
    }
}

fn as_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
