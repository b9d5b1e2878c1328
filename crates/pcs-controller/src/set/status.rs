//! The status of a set: replica counts, conditions and errors. When it is written: `grove-controller/src/status_limiter.rs`.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::conditions::{self, available};
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::expansion::{Clique, SetReplica, TemplateHashes};
use grove_api_types::resource_sharing::claim_source::shares_claims;
use grove_api_types::v1alpha1::{LastError, PodCliqueScalingGroup, PodCliqueSet, PodCliqueSetStatus};
use grove_api_types::{labels, unsupported_fields};
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, remove_status_condition, set_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::plan::Plan;
use grove_controller::resource_claims;
use grove_controller::status_writer::as_count;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use crate::children::{clique, rejections, too_large};
use crate::claims::status::ClaimsState;
use crate::update::{self, Awaited, SetFacts};
use crate::{claims, topology};

/// The status of the set after its plan was executed.
pub(crate) fn status(observed: &Observed, plan: &Plan, result: &ExecutionResult, now: Timestamp) -> PodCliqueSetStatus {
    let old = observed.set.status.clone().unwrap_or_default();
    if let Some(limit) = observed.exceeded_limit() {
        return too_large_status(observed, old, limit, now);
    }
    let (replicas, hashes) = (&observed.replicas, observed.revision.hashes());
    let available: Vec<_> = replicas.iter().filter(|replica| observed.is_available(replica)).collect();
    let complete = available.iter().filter(|replica| observed.is_updated(replica)).map(|replica| replica.index);
    let complete: BTreeSet<i32> = complete.collect();
    let (available, updated) = (as_count(available.len()), as_count(complete.len()));
    let base_labels = labels::base(&observed.name());
    let conflicts = observed.conflicts(&base_labels);
    let mut errors = rejections::last_errors(result, &observed.backed_off, &conflicts);
    errors.extend(resource_claims::template_errors::<PodCliqueSet>(plan));
    let rejection =
        rejections::first_rejection(result, &observed.backed_off, &conflicts).or_else(|| first_waiting(observed, plan));
    let update_progress = update::set_progress(&observed.set, &update_facts(observed, &complete), now);
    // With `OnDelete`, the work of a generation ends before the pods are new, as in the Go operator.
    let mut to_update = replicas.iter().filter(|replica| replica.index >= observed.partition());
    let mut may_be_outdated = || to_update.any(|replica| may_be_outdated(observed, hashes, replica));
    let has_ended = update_progress.as_ref().is_none_or(|progress| progress.update_ended_at.is_some());
    let is_updated = observed.set.spec.is_updated_on_delete() || (has_ended && !may_be_outdated());
    let is_complete = result.succeeded() && observed.backed_off.children.is_empty() && is_updated;
    let mut conditions = old.conditions;
    set_status_condition(&mut conditions, available_condition(observed, available, rejection), now);
    match unsupported_fields::message(&observed.unsupported_fields) {
        Some(message) => set_status_condition(&mut conditions, unsupported_fields_condition(observed, message), now),
        None => remove_status_condition(&mut conditions, conditions::UNSUPPORTED_FIELDS),
    }
    match claims_condition(observed, result, &conflicts) {
        Some(condition) => set_status_condition(&mut conditions, condition, now),
        None => remove_status_condition(&mut conditions, conditions::RESOURCE_CLAIMS_CREATED),
    }
    if let Some(progress) = &update_progress {
        let condition = update::set_condition(&observed.set, progress, || incomplete(observed));
        set_status_condition(&mut conditions, condition, now);
    }
    match topology::status::condition(&observed.topologies, observed.is_topology_enabled, &observed.set) {
        Some(condition) => set_status_condition(&mut conditions, condition, now),
        None => remove_status_condition(&mut conditions, conditions::TOPOLOGY_LEVELS_UNAVAILABLE),
    }
    PodCliqueSetStatus {
        observed_generation: if is_complete { observed.set.metadata.generation } else { old.observed_generation },
        conditions,
        last_errors: LastError::update(&old.last_errors, errors, &Time(now)),
        replicas: Some(observed.set.spec.replicas),
        updated_replicas: updated,
        available_replicas: available,
        hpa_pod_selector: Some(selector(base_labels)),
        pod_gang_statuses: Vec::new(),
        update_progress,
        current_generation_hash: Some(hashes.generation_hash.clone()),
    }
}

/// The condition about claims; `None` if no level of the set shares claims.
fn claims_condition(
    observed: &Observed,
    result: &ExecutionResult,
    conflicts: &NameConflicts<'_, PodCliqueSet>,
) -> Option<ConditionUpdate> {
    let Observed { set, children, backed_off, .. } = observed;
    let claims = &observed.owned_claims();
    shares_claims(&set.spec.template)
        .then(|| ClaimsState { claims, children, result, backed_off, conflicts }.condition(set))
}

/// Why the plan creates nothing, if the namespace is terminating or the annotations of a gang cannot be read, which revision does not exist, which compute
/// domains are awaited, or why a claim is not created. The other reasons to wait are name
/// conflicts. Those that a user has to resolve are among the rejections. The others end by themselves one after the other, and each end
/// would be a further status write.
fn first_waiting(observed: &Observed, plan: &Plan) -> Option<(&'static str, String)> {
    let first = |reason: &str| plan.waiting.iter().find(|waiting| waiting.reason == reason).cloned();
    let terminating = first(available::NAMESPACE_TERMINATING);
    let waiting = terminating.or_else(|| first(available::UNREADABLE_ANNOTATION));
    let waiting = waiting.or_else(|| first(available::REVISION_NOT_FOUND));
    let waiting = waiting.or_else(|| observed.awaited_domains.waiting_of_set());
    let waiting = waiting.or_else(|| claims::plan::first_waiting(plan).cloned())?;
    Some((waiting.reason, waiting.message))
}

/// The status of a set that exceeds a limit. Its existing children stay and are not counted. Its generation is not observed, because its work
/// is not done.
fn too_large_status(
    observed: &Observed,
    old: PodCliqueSetStatus,
    limit: SizeLimit,
    now: Timestamp,
) -> PodCliqueSetStatus {
    let mut conditions = old.conditions;
    let generation = observed.set.metadata.generation;
    set_status_condition(&mut conditions, too_large::available_condition(limit, generation), now);
    PodCliqueSetStatus { conditions, replicas: Some(observed.set.spec.replicas), ..old }
}

/// The selector of one pod of each replica: an autoscaler multiplies its ratio by the number of selected pods.
fn selector(mut labels: BTreeMap<String, String>) -> String {
    labels.extend(labels::of([(labels::FIRST_SET_POD, labels::IS_FIRST_SET_POD)]));
    labels::selector(&labels)
}

/// What the progress of the update is computed from.
fn update_facts<'a>(observed: &'a Observed, complete: &BTreeSet<i32>) -> SetFacts<'a> {
    let (replicas, hashes) = (&observed.replicas, observed.revision.hashes());
    let updating = with_turn(observed).map(|replica| replica.index).filter(|index| !complete.contains(index));
    let cliques: Vec<_> = replicas.iter().flat_map(|replica| &replica.cliques).collect();
    let updated_cliques = cliques.iter().filter(|clique| clique::is_updated(&observed.children, hashes, clique));
    let groups: Vec<_> = replicas.iter().flat_map(|replica| &replica.groups).collect();
    let updated_groups = groups.iter().filter(|group| observed.is_group_updated(group));
    SetFacts {
        hash: observed.hash(),
        has_waiting_replicas: observed.turns.waiting.iter().any(|index| *index >= observed.partition()),
        updating: updating.collect(),
        cliques: (as_count(updated_cliques.count()), as_count(cliques.len())),
        groups: (as_count(updated_groups.count()), as_count(groups.len())),
    }
}

/// The replicas that do not wait for their turn.
fn with_turn(observed: &Observed) -> impl Iterator<Item = &SetReplica> {
    observed.replicas.iter().filter(|replica| !observed.turns.waiting.contains(&replica.index))
}

/// The cliques and scaling groups of the replicas that have had their turn, and that are not complete.
fn incomplete(observed: &Observed) -> Vec<Awaited> {
    let hashes = observed.revision.hashes();
    let is_complete = |desired: &Clique| {
        let is_available = clique::active(&observed.children, &desired.name).is_some_and(clique::is_available);
        is_available && clique::is_updated(&observed.children, hashes, desired)
    };
    let cliques = with_turn(observed).flat_map(|replica| &replica.cliques).filter(|desired| !is_complete(desired));
    let groups =
        with_turn(observed).flat_map(|replica| &replica.groups).filter(|group| !observed.is_group_complete(group));
    let cliques = cliques.map(|desired| Awaited::of_clique(&observed.children, &desired.name));
    let groups = groups.map(|desired| {
        let status = observed.active_group(&desired.name).and_then(|group| group.status.as_ref());
        Awaited::new::<PodCliqueScalingGroup>(desired.name.as_str(), status.map(|status| &*status.conditions))
    });
    cliques.chain(groups).collect()
}

/// Whether an active clique or group of the replica does not report that its update to the current template has ended.
fn may_be_outdated(observed: &Observed, hashes: &TemplateHashes, replica: &SetReplica) -> bool {
    let clique = |desired: &Clique| clique::may_be_outdated(&observed.children, hashes, desired);
    replica.cliques.iter().any(clique) || replica.groups.iter().any(|group| observed.group_may_be_outdated(group))
}

fn available_condition(
    observed: &Observed,
    available: i32,
    rejection: Option<(&'static str, String)>,
) -> ConditionUpdate {
    let desired = observed.set.spec.replicas;
    let counts = format!("{available} of {desired} replicas are available");
    let (holds, reason, message) = match rejection {
        _ if available >= desired => (true, available::MINIMUM_REPLICAS_AVAILABLE, counts),
        Some((reason, rejection)) => (false, reason, format!("{counts}; {rejection}")),
        None => (false, available::MINIMUM_REPLICAS_UNAVAILABLE, counts),
    };
    ConditionUpdate {
        type_: conditions::AVAILABLE,
        status: holds.into(),
        reason: reason.to_owned(),
        message,
        observed_generation: observed.set.metadata.generation,
    }
}

/// The condition that lists the fields that the set uses and no service supports.
fn unsupported_fields_condition(observed: &Observed, message: String) -> ConditionUpdate {
    ConditionUpdate {
        type_: conditions::UNSUPPORTED_FIELDS,
        status: ConditionStatus::True,
        reason: conditions::unsupported_fields::FIELDS_NOT_SUPPORTED.to_owned(),
        message,
        observed_generation: observed.set.metadata.generation,
    }
}
