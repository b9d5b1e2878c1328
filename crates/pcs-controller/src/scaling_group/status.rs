//! The status of a scaling group: replica counts, conditions and errors. When it is written: `grove-controller/src/status_limiter.rs`.

use grove_api_types::conditions::{self, available, min_available_breached};
use grove_api_types::error_codes;
use grove_api_types::expansion::Clique;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::resource_sharing::of_clique;
use grove_api_types::v1alpha1::{
    LastError, PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueScalingGroupUpdateProgress,
};
use grove_controller::conditions::{
    ConditionStatus, ConditionUpdate, find_status_condition, is_status_condition_true, remove_status_condition,
    set_status_condition,
};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::resource_claims;
use grove_controller::status_limiter::StatusChange;
use grove_controller::status_writer::as_count;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observed::{GroupExpansion, Observed};
use crate::children::{clique, rejections, too_large};
use crate::claims::status::ClaimsState;
use crate::update::{self, Awaited, GroupFacts};

/// How many replicas of a group are in each state.
#[derive(Clone, Copy, Debug, Default)]
struct ReplicaCounts {
    scheduled: i32,
    available: i32,
    updated: i32,
    /// Replicas whose cliques all exist and report that they are not in breach of `minAvailable`.
    healthy: i32,
    /// Whether all desired cliques and their pods were created from the current templates.
    all_current: bool,
}

/// The status of the group after its plan was executed.
pub(crate) fn status(
    observed: &Observed,
    plan: &Plan,
    result: &ExecutionResult,
    now: Timestamp,
) -> PodCliqueScalingGroupStatus {
    let old = observed.group.status.clone().unwrap_or_default();
    if let Some(limit) = observed.exceeded_limit() {
        return too_large_status(observed, old, limit, now);
    }
    let expansion = observed.expansion();
    let counts = expansion.as_ref().map(|expansion| replica_counts(observed, expansion)).unwrap_or_default();
    let base_labels = observed.base_labels();
    let mut errors = rejections::last_errors(result, &observed.backed_off, &observed.conflicts(&base_labels));
    errors.extend(resource_claims::template_errors::<PodCliqueScalingGroup>(plan));
    let code = error_codes::for_write("PodCliqueScalingGroup", "PodClique", "create");
    errors.extend(observed.identity_conflict.as_ref().map(|waiting| (code.to_owned(), waiting.message.clone())));
    let may_be_outdated = expansion.as_ref().is_some_and(|expansion| may_be_outdated(observed, expansion));
    let is_complete = result.succeeded() && observed.backed_off.children.is_empty() && !may_be_outdated;
    let update_progress = expansion.as_ref().and_then(|expansion| update_progress(observed, expansion, counts, now));
    let mut conditions = old.conditions;
    let breached = match &update_progress {
        Some(progress) if progress.is_in_progress() => breached_during_update(observed),
        _ => min_available_breached_condition(observed, counts),
    };
    set_status_condition(&mut conditions, breached, now);
    set_status_condition(&mut conditions, available_condition(observed, counts, plan, result), now);
    if let Some((progress, expansion)) = update_progress.as_ref().zip(expansion.as_ref()) {
        let bounds = (observed.progress_deadline(), expansion.set.spec.rolling_update().paused);
        let awaited = || incomplete(observed, expansion);
        let of_group = (progress, observed.group.metadata.generation);
        set_status_condition(&mut conditions, update::group_condition(of_group, bounds, awaited, now), now);
    }
    match expansion.as_ref().and_then(|expansion| claims_condition(observed, expansion, result)) {
        Some(condition) => set_status_condition(&mut conditions, condition, now),
        None => remove_status_condition(&mut conditions, conditions::RESOURCE_CLAIMS_CREATED),
    }
    PodCliqueScalingGroupStatus {
        observed_generation: if is_complete { observed.group.metadata.generation } else { old.observed_generation },
        last_errors: LastError::update(&old.last_errors, errors, &Time(now)),
        replicas: Some(observed.group.spec.replicas),
        scheduled_replicas: counts.scheduled,
        available_replicas: counts.available,
        updated_replicas: counts.updated,
        selector: selector(observed),
        conditions,
        current_pod_clique_set_generation_hash: match expansion {
            Some(expansion) if counts.all_current => {
                Some(expansion.set_replica.revision.hashes().generation_hash.clone())
            }
            _ => old.current_pod_clique_set_generation_hash,
        },
        update_progress,
    }
}

/// The status of a group that exceeds a limit. Its existing cliques stay and are not counted. Its generation is not observed, because its work
/// is not done.
fn too_large_status(
    observed: &Observed,
    old: PodCliqueScalingGroupStatus,
    limit: SizeLimit,
    now: Timestamp,
) -> PodCliqueScalingGroupStatus {
    let mut conditions = old.conditions;
    let generation = observed.group.metadata.generation;
    set_status_condition(&mut conditions, too_large::available_condition(limit, generation), now);
    PodCliqueScalingGroupStatus { replicas: Some(observed.group.spec.replicas), conditions, ..old }
}

/// A change is significant if the group becomes or stops being available, becomes complete, begins or ends an update, has another reason in its condition `UpdateInProgress`, or has other errors or another
/// reason in the condition about claims.
pub(crate) fn status_change(observed: &Observed, new: &PodCliqueScalingGroupStatus) -> StatusChange {
    let old = observed.group.status.as_ref();
    let is_available =
        |status: &PodCliqueScalingGroupStatus| is_status_condition_true(&status.conditions, conditions::AVAILABLE);
    let is_complete = Some(new.available_replicas) == new.replicas && new.updated_replicas == new.available_replicas;
    let old_errors = old.map(|old| old.last_errors.as_slice()).unwrap_or_default();
    let availability_changed = old.is_some_and(is_available) != is_available(new);
    let claims = |status: &PodCliqueScalingGroupStatus| {
        let condition = find_status_condition(&status.conditions, conditions::RESOURCE_CLAIMS_CREATED);
        condition.map(|condition| condition.reason.clone())
    };
    let claims_changed = old.and_then(claims) != claims(new);
    let phase = |status: &PodCliqueScalingGroupStatus| {
        let progress = status.update_progress.as_ref()?;
        let condition = find_status_condition(&status.conditions, conditions::UPDATE_IN_PROGRESS);
        let reason = condition.map(|condition| condition.reason.clone());
        Some((progress.pod_clique_set_generation_hash.clone(), progress.update_ended_at.is_some(), reason))
    };
    let update_changed = old.and_then(phase) != phase(new);
    let is_significant =
        availability_changed || is_complete || update_changed || old_errors != new.last_errors || claims_changed;
    if is_significant { StatusChange::Significant } else { StatusChange::Minor }
}

/// The condition about claims; `None` if neither the group nor a clique of it shares claims.
fn claims_condition(
    observed: &Observed,
    expansion: &GroupExpansion<'_>,
    result: &ExecutionResult,
) -> Option<ConditionUpdate> {
    let (Observed { group, children, backed_off, .. }, claims) = (observed, &expansion.claims);
    let is_member = |name: &String| expansion.scaling_group.config.clique_names.contains(name);
    let mut members = expansion.set.spec.template.cliques.iter().filter(|clique| is_member(&clique.name));
    if claims.sources.is_empty() && !members.any(|clique| !of_clique(clique).is_empty()) {
        return None;
    }
    let base_labels = observed.base_labels();
    let conflicts = &observed.conflicts(&base_labels);
    Some(ClaimsState { claims, children, result, backed_off, conflicts }.condition(group))
}

fn replica_counts(observed: &Observed, expansion: &GroupExpansion<'_>) -> ReplicaCounts {
    let hashes = expansion.set_replica.revision.hashes();
    let mut counts = ReplicaCounts { all_current: true, ..ReplicaCounts::default() };
    for replica in &expansion.scaling_group.replicas {
        let all_cliques = |holds: &dyn Fn(&PodClique, &Clique) -> bool| {
            let holds = |desired: &Clique| {
                clique::active(&observed.children, &desired.name).is_some_and(|active| holds(active, desired))
            };
            replica.cliques.iter().all(holds)
        };
        let scheduled = all_cliques(&|clique, _| is_scheduled(clique));
        let available = scheduled && all_cliques(&|clique, _| clique::is_available(clique));
        let current = all_cliques(&|clique, desired| clique::is_current(clique, hashes, &desired.template.name));
        counts.scheduled += i32::from(scheduled);
        counts.available += i32::from(available);
        counts.updated += i32::from(available && current);
        counts.healthy += i32::from(all_cliques(&|clique, _| is_healthy(clique)));
        counts.all_current &= current;
    }
    counts
}

/// The progress of the current or the last update. A new group has none.
fn update_progress(
    observed: &Observed,
    expansion: &GroupExpansion<'_>,
    counts: ReplicaCounts,
    now: Timestamp,
) -> Option<PodCliqueScalingGroupUpdateProgress> {
    let hashes = expansion.set_replica.revision.hashes();
    let cliques: Vec<_> = expansion.scaling_group.replicas.iter().flat_map(|replica| &replica.cliques).collect();
    let updated = cliques.iter().filter(|desired| clique::is_updated(&observed.children, hashes, desired));
    let facts = GroupFacts {
        hash: &hashes.generation_hash,
        is_rolling: expansion.turns.is_open,
        has_waiting_replicas: !expansion.turns.waiting.is_empty(),
        is_complete: counts.all_current && counts.available >= observed.group.spec.required_replicas(),
        cliques: (as_count(updated.count()), as_count(cliques.len())),
    };
    let is_paused = expansion.set.spec.rolling_update().paused;
    update::group_progress(observed.group.status.as_ref(), &facts, is_paused, now)
}

/// The cliques of the replicas that do not wait for their turn, and that are not complete.
fn incomplete(observed: &Observed, expansion: &GroupExpansion<'_>) -> Vec<Awaited> {
    let (children, hashes) = (&observed.children, expansion.set_replica.revision.hashes());
    let is_complete = |desired: &Clique| {
        let is_available = clique::active(children, &desired.name).is_some_and(clique::is_available);
        is_available && clique::is_updated(children, hashes, desired)
    };
    let replicas = expansion.scaling_group.replicas.iter();
    let with_turn = replicas.filter(|replica| !expansion.turns.waiting.contains(&replica.index));
    let cliques = with_turn.flat_map(|replica| &replica.cliques).filter(|desired| !is_complete(desired));
    cliques.map(|desired| Awaited::of_clique(children, &desired.name)).collect()
}

fn breached_during_update(observed: &Observed) -> ConditionUpdate {
    let (reason, message) = (min_available_breached::UPDATE_IN_PROGRESS, "the pods of the group are being updated");
    condition(observed, conditions::MIN_AVAILABLE_BREACHED, ConditionStatus::Unknown, reason, message.to_owned())
}

/// Whether pods of another template may run, and not because the user deletes them himself.
fn may_be_outdated(observed: &Observed, expansion: &GroupExpansion<'_>) -> bool {
    let hashes = expansion.set_replica.revision.hashes();
    let mut cliques = expansion.scaling_group.replicas.iter().flat_map(|replica| &replica.cliques);
    !expansion.set.spec.is_updated_on_delete()
        && cliques.any(|desired| clique::may_be_outdated(&observed.children, hashes, desired))
}

fn is_scheduled(clique: &PodClique) -> bool {
    clique
        .status
        .as_ref()
        .is_some_and(|status| is_status_condition_true(&status.conditions, conditions::POD_CLIQUE_SCHEDULED))
}

/// Whether the clique reports that it is not in breach of `minAvailable`. A clique without that condition is not healthy, so
/// that a new group does not appear to have been healthy before.
fn is_healthy(clique: &PodClique) -> bool {
    let conditions = clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find_status_condition(conditions, conditions::MIN_AVAILABLE_BREACHED)
        .is_some_and(|breached| breached.status != "True")
}

fn min_available_breached_condition(observed: &Observed, counts: ReplicaCounts) -> ConditionUpdate {
    let (healthy, needed) = (counts.healthy, observed.group.spec.min_available.unwrap_or(1));
    let (status, reason, message) = if healthy < needed {
        let message = format!("PCSG replicas not in breach ({healthy}) below MinAvailable ({needed})");
        (ConditionStatus::True, min_available_breached::INSUFFICIENT_AVAILABLE_REPLICAS, message)
    } else {
        let message = format!("PCSG replicas not in breach ({healthy}) meets MinAvailable ({needed})");
        (ConditionStatus::False, min_available_breached::SUFFICIENT_AVAILABLE_REPLICAS, message)
    };
    condition(observed, conditions::MIN_AVAILABLE_BREACHED, status, reason, message)
}

fn available_condition(
    observed: &Observed,
    counts: ReplicaCounts,
    plan: &Plan,
    result: &ExecutionResult,
) -> ConditionUpdate {
    let spec = &observed.group.spec;
    let mut message = format!("{} of {} replicas are available", counts.available, spec.replicas);
    let waiting = plan.waiting.first();
    if let Some(waiting) = waiting {
        message = format!("{message}; {}", waiting.message);
    }
    let rejection = rejections::rejection_message(result, &observed.backed_off);
    let (holds, reason) = match (rejection, waiting) {
        _ if counts.available >= spec.required_replicas() => (true, available::MINIMUM_REPLICAS_AVAILABLE),
        (Some((reason, rejection)), _) => {
            message = format!("{message}; {rejection}");
            (false, reason)
        }
        (None, Some(waiting)) => (false, waiting.reason),
        (None, None) => (false, available::MINIMUM_REPLICAS_UNAVAILABLE),
    };
    condition(observed, conditions::AVAILABLE, holds.into(), reason, message)
}

fn condition(
    observed: &Observed,
    type_: &'static str,
    status: ConditionStatus,
    reason: &str,
    message: String,
) -> ConditionUpdate {
    let observed_generation = observed.group.metadata.generation;
    ConditionUpdate { type_, status, reason: reason.to_owned(), message, observed_generation }
}

/// The selector of one pod of each replica: an autoscaler multiplies its ratio by the number of selected pods.
fn selector(observed: &Observed) -> Option<String> {
    let set = PodCliqueSetName::new(observed.group.labels().get(labels::PART_OF)?);
    let mut selected = labels::base(&set);
    selected.extend(labels::of([(labels::SCALING_GROUP, observed.name().as_str()), (labels::GROUP_POD_INDEX, "0")]));
    Some(labels::selector(&selected))
}
