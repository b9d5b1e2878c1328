//! Plans the claims of a clique. They are created before the pods that use them: the plan of the pods follows from its result.
//!
//! A claim of a removed pod index is deleted as soon as Kubernetes retains it until its last pod is deleted, which holds for an allocated
//! claim, or if no pod uses it. So its deletion never ends before the deletion of a pod that refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::conditions::{RESOURCE_CLAIMS_CREATED, available, resource_claims_created as reasons};
use grove_api_types::deletion::is_terminating;
use grove_api_types::events;
use grove_api_types::names::{ClaimOwner, ResourceClaimName};
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::resource_sharing::claim::claim_labels;
use grove_api_types::text::join_names;
use grove_controller::children::StepFilter;
use grove_controller::conditions::find_status_condition;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::plan::{Plan, Stage, Step, Waiting, WarningEvent};

use super::desired::CLAIM_KINDS;
use super::observed::{NeededClaim, ObservedClaims, ReferenceState, ReferencedClaim};
use crate::observed::ObservedClique;
use crate::stage;

/// A message contains at most this many claims, and counts the others.
const MAX_NAMED: usize = 10;

/// The plan for the claims of one clique. No claim waits for another one.
pub(crate) fn plan(clique: &ObservedClique, claims: &ObservedClaims) -> Plan {
    if claims.is_empty() {
        return Plan::new();
    }
    if clique.is_terminating() {
        let deletes = claims.deletable(clique).map(Step::delete_with_optimistic_lock);
        let stage = stage::bounded(stage::CLAIMS, deletes).with_event(
            events::RESOURCE_CLAIM_DELETE_SUCCESSFUL,
            events::RESOURCE_CLAIM_DELETE_FAILED,
            "Deleted",
        );
        return if clique.orphans_pods { Plan::new() } else { Plan::new().stage(stage).with_independent_stages() };
    }
    if claims.is_too_large(clique) {
        return Plan::new();
    }
    let Ok(identity) = clique.identity() else { return Plan::new() };
    // An orphan that has them is adopted.
    let labels = &claim_labels(&identity.set, ClaimOwner::Clique(&clique.name()), None);
    let conflicts = NameConflicts { owner: &clique.clique, conflicts: &claims.name_conflicts, labels };
    let filter = StepFilter::new(conflicts, &claims.backed_off, &claims.pending_creates)
        .without_creates_if(clique.is_namespace_terminating);
    let mut plan = CLAIM_KINDS.plan(&claims.children, &claims.expansion(clique, &identity), filter);
    plan.waiting.iter_mut().for_each(|waiting| waiting.reason = reason_of_claims(waiting.reason));
    let plan = plan.waiting(claims.unknown()).waiting(references(claims)).waiting(ending(clique, claims));
    let warnings = warnings(clique, &plan);
    plan.with_warnings(warnings).with_independent_stages()
}

/// Deletes the claims of a deleted clique.
pub(crate) fn delete_all(claims: &[Arc<ResourceClaim>]) -> Stage {
    let active = claims.iter().filter(|claim| !is_terminating(&***claim));
    stage::bounded(stage::CLAIMS, active.map(|claim| Step::delete_with_optimistic_lock(&**claim)))
}

/// The reason of the condition about claims for a reason of a plan.
fn reason_of_claims(reason: &'static str) -> &'static str {
    match reason {
        available::NAME_CONFLICT | available::UNREADABLE_OBJECT => reasons::RESOURCE_CLAIM_NAME_CONFLICT,
        available::NAME_TERMINATING => reasons::RESOURCE_CLAIM_TERMINATING,
        other => other,
    }
}

/// Why pods may not use all claims of the set and of the scaling group.
fn references(claims: &ObservedClaims) -> Option<Waiting> {
    if claims.references.is_empty() {
        return None;
    }
    if let Some(unavailable) = claims.unavailable() {
        // The own claims of the clique wait for the same reason.
        return claims.own.is_empty().then_some(unavailable);
    }
    let describe = |ReferencedClaim { name, state }: &ReferencedClaim| match state {
        ReferenceState::Usable => None,
        ReferenceState::NotFound => Some(format!("{name} does not exist")),
        ReferenceState::Terminating => Some(format!("{name} is being deleted")),
        ReferenceState::NotControlled => {
            Some(format!("{name} exists, and neither the set nor the scaling group controls it"))
        }
    };
    let unusable: Vec<_> = claims.references.iter().filter_map(describe).collect();
    let list = join_names(&unusable, MAX_NAMED);
    let message = format!("new pods wait for ResourceClaims of the set or of the scaling group: {list}");
    (!unusable.is_empty()).then(|| Waiting::new(reasons::RESOURCE_CLAIMS_PENDING, message))
}

/// The needed claims that are deleted before new ones of their names are created.
fn ending(clique: &ObservedClique, claims: &ObservedClaims) -> Option<Waiting> {
    let is_ending = |name: &ResourceClaimName| {
        claims.retired.contains(name.as_str()) || claims.get(name).is_some_and(is_terminating)
    };
    let needed = claims.needed(clique).map(|NeededClaim { name, .. }| name);
    let ending: Vec<_> = needed.filter(is_ending).map(String::from).collect();
    let message = || {
        let list = join_names(&ending, MAX_NAMED);
        format!("these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: {list}")
    };
    (!ending.is_empty()).then(|| Waiting::new(reasons::RESOURCE_CLAIM_TERMINATING, message()))
}

/// Warnings about templates that do not exist and about objects of others, unless the condition of the clique reports them: then an
/// earlier warning did, too. There is one warning for each reason.
fn warnings(clique: &ObservedClique, plan: &Plan) -> Vec<WarningEvent> {
    let conditions = clique.clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = find_status_condition(conditions, RESOURCE_CLAIMS_CREATED);
    let is_reported =
        |waiting: &Waiting| condition.is_some_and(|condition| condition.message.contains(&waiting.message));
    let warning = |reason: &str, event: &'static str| {
        let of_reason = plan.waiting.iter().filter(|waiting| waiting.reason == reason).take(MAX_NAMED);
        let messages: BTreeSet<_> =
            of_reason.filter(|waiting| !is_reported(waiting)).map(|waiting| waiting.message.as_str()).collect();
        let note = messages.into_iter().collect::<Vec<_>>().join("; ");
        (!note.is_empty()).then_some(WarningEvent { reason: event, note })
    };
    let templates = warning(reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND, events::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND);
    let conflicts = warning(reasons::RESOURCE_CLAIM_NAME_CONFLICT, events::RESOURCE_CLAIM_CREATE_FAILED);
    templates.into_iter().chain(conflicts).collect()
}
