//! Plans the claims of a clique. They are created before the pods that use them: the plan of the pods follows from its result.
//!
//! A claim of a removed pod index is deleted as soon as Kubernetes retains it until its last pod is deleted, which holds for an allocated
//! claim, or if no pod uses it. So its deletion never ends before the deletion of a pod that refers to it.

use std::collections::BTreeSet;

use grove_api_types::conditions::{RESOURCE_CLAIMS_CREATED, available, resource_claims_created as reasons};
use grove_api_types::deletion::is_terminating;
use grove_api_types::events;
use grove_api_types::names::ResourceClaimName;
use grove_api_types::text::join_names;
use grove_controller::children::StepFilter;
use grove_controller::conditions::find_status_condition;
use grove_controller::plan::{Plan, Stage, Step, Waiting, WarningEvent};

use crate::clique::desired::CLAIM_KINDS;
use crate::clique::observed::Observed;
use crate::clique::observed::claims::{NeededClaim, ReferenceState, ReferencedClaim, claims_invalid};
use crate::stage;

/// A message contains at most this many claims, and counts the others.
const MAX_NAMED: usize = 10;

/// The plan for the claims of one clique. No claim waits for another one.
pub(crate) fn claims(observed: &Observed) -> Plan {
    if observed.claims.is_empty() {
        return Plan::new();
    }
    if observed.is_terminating() {
        let deletes = observed.deletable_claims().map(Step::delete_with_optimistic_lock);
        let stage = deletion(deletes);
        return if observed.orphans_pods { Plan::new() } else { Plan::new().stage(stage).with_independent_stages() };
    }
    if observed.is_too_large() {
        return Plan::new();
    }
    let Ok(identity) = observed.identity() else { return Plan::new() };
    let labels = observed.labels_of_claims(&identity);
    let claims = &observed.claims;
    let filter = StepFilter::new(observed.claim_conflicts(&labels), &claims.backed_off, &claims.pending_creates)
        .without_creates_if(observed.is_namespace_terminating);
    let mut plan = CLAIM_KINDS.plan(&claims.children, &observed.expand_claims(&identity), filter);
    plan.waiting.iter_mut().for_each(|waiting| waiting.reason = reason_of_claims(waiting.reason));
    let plan = plan
        .waiting(claims.invalid.clone().map(claims_invalid))
        .waiting(references(observed))
        .waiting(ending(observed));
    let warnings = warnings(observed, &plan);
    plan.with_warnings(warnings).with_independent_stages()
}

/// The stage that deletes claims.
fn deletion(deletes: impl Iterator<Item = Step>) -> Stage {
    stage::bounded(stage::CLAIMS, deletes).with_event(
        events::RESOURCE_CLAIM_DELETE_SUCCESSFUL,
        events::RESOURCE_CLAIM_DELETE_FAILED,
        "Deleted",
    )
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
fn references(observed: &Observed) -> Option<Waiting> {
    let claims = &observed.claims;
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
fn ending(observed: &Observed) -> Option<Waiting> {
    let claims = &observed.claims;
    let is_ending = |name: &ResourceClaimName| {
        claims.retired.contains(name.as_str()) || claims.get(name).is_some_and(is_terminating)
    };
    let needed = observed.needed_claims().map(|NeededClaim { name, .. }| name);
    let ending: Vec<_> = needed.filter(is_ending).map(String::from).collect();
    let message = || {
        let list = join_names(&ending, MAX_NAMED);
        format!("these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: {list}")
    };
    (!ending.is_empty()).then(|| Waiting::new(reasons::RESOURCE_CLAIM_TERMINATING, message()))
}

/// Warnings about templates that do not exist and about objects of others, unless the condition of the clique reports them: then an
/// earlier warning did, too. There is one warning for each reason.
fn warnings(observed: &Observed, plan: &Plan) -> Vec<WarningEvent> {
    let conditions = observed.clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
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
