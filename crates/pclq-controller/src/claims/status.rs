//! The condition of a clique about its claims.

use grove_api_types::conditions::{self, available, resource_claims_created as reasons};
use grove_api_types::deletion::is_terminating;
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::v1alpha1::PodCliqueStatus;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, find_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Plan, Waiting};
use grove_controller::rejections::rejection_message_of_kind;
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;

use super::observed::{NeededClaim, ObservedClaims, ReferenceState};
use crate::observed::ObservedClique;

/// The message contains at most this many causes.
const MAX_CAUSES: usize = 10;
/// The message contains at most this many characters of the message of a scheduler.
const MAX_SCHEDULER_MESSAGE: usize = 500;
/// The reasons of the condition, the most specific ones first.
const CAUSES: [&str; 9] = [
    reasons::RESOURCE_CLAIMS_NOT_SERVED,
    reasons::RESOURCE_CLAIMS_FORBIDDEN,
    reasons::RESOURCE_CLAIMS_INVALID,
    reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND,
    reasons::RESOURCE_CLAIM_NAME_CONFLICT,
    reasons::RESOURCE_CLAIM_REJECTED,
    reasons::RESOURCE_CLAIM_TERMINATING,
    reasons::RESOURCE_CLAIMS_PENDING,
    available::NAMESPACE_TERMINATING,
];

/// Whether all claims that the pods of the clique use exist; `None` if they use none, or if the clique is too large. If the scheduler rejects a pod because of a claim,
/// the message contains its reason: for example, Kubernetes allows at most 256 pods per claim.
pub(crate) fn condition(
    clique: &ObservedClique,
    claims: &ObservedClaims,
    plan: &Plan,
    result: &ExecutionResult,
) -> Option<ConditionUpdate> {
    if !claims.is_used() || claims.is_too_large(clique) {
        return None;
    }
    let (existing, count) = counts(clique, claims);
    let causes = causes(claims, plan, result);
    let (status, reason, message) = match causes.first() {
        Some(first) => {
            let messages: Vec<_> = causes.iter().take(MAX_CAUSES).map(|cause| cause.message.as_str()).collect();
            let message = format!("{existing} of {count} ResourceClaims exist; {}", messages.join("; "));
            (ConditionStatus::False, first.reason, message)
        }
        None if existing < count => {
            let message = format!("{existing} of {count} ResourceClaims exist");
            (ConditionStatus::False, reasons::RESOURCE_CLAIMS_PENDING, message)
        }
        None if count == 0 => {
            let message = "the PodClique has no pods that need ResourceClaims".to_owned();
            (ConditionStatus::True, reasons::ALL_RESOURCE_CLAIMS_EXIST, message)
        }
        None => {
            let message = format!("all {count} ResourceClaims exist");
            (ConditionStatus::True, reasons::ALL_RESOURCE_CLAIMS_EXIST, message)
        }
    };
    let unschedulable = unschedulable_message(clique).unwrap_or_default();
    Some(ConditionUpdate {
        type_: conditions::RESOURCE_CLAIMS_CREATED,
        status,
        reason: reason.to_owned(),
        message: [message, unschedulable].concat(),
        observed_generation: clique.clique.metadata.generation,
    })
}

/// Why the pods cannot use all claims, as the status reports it.
pub(crate) fn reason_of_missing(status: &PodCliqueStatus) -> Option<&str> {
    let condition = find_status_condition(&status.conditions, conditions::RESOURCE_CLAIMS_CREATED);
    condition.filter(|condition| condition.status != "True").map(|condition| condition.reason.as_str())
}

/// How many of the claims that the pods use can be used, and the number of these claims.
fn counts(clique: &ObservedClique, claims: &ObservedClaims) -> (usize, usize) {
    let usable = claims.references.iter().filter(|reference| reference.state == ReferenceState::Usable).count();
    let (mut existing, mut count) = (usable, claims.references.len());
    for NeededClaim { name, .. } in claims.needed(clique) {
        count += 1;
        existing += usize::from(claims.is_usable(&name));
    }
    (existing, count)
}

/// Why not all claims can be used, the most specific cause first.
fn causes(claims: &ObservedClaims, plan: &Plan, result: &ExecutionResult) -> Vec<Waiting> {
    let rejection = rejection_message_of_kind::<ResourceClaim>(result, &claims.backed_off);
    let rejection = rejection.map(|message| Waiting::new(reasons::RESOURCE_CLAIM_REJECTED, message));
    let rank = |waiting: &Waiting| CAUSES.iter().position(|reason| *reason == waiting.reason);
    let ranked = plan.waiting.iter().cloned().chain(rejection).filter_map(|waiting| Some((rank(&waiting)?, waiting)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    ranked.into_iter().map(|(_, waiting)| waiting).collect()
}

/// The message of the scheduler about the first pod that it rejects because of a claim.
fn unschedulable_message(clique: &ObservedClique) -> Option<String> {
    let is_about_claims = |message: &str| message.to_lowercase().replace("persistentvolumeclaim", "").contains("claim");
    let rejection = |pod: &SlimPod| {
        let message = pod.unschedulable_message().filter(|message| is_about_claims(message))?;
        let message: String = message.chars().take(MAX_SCHEDULER_MESSAGE).collect();
        Some(format!("; Pod {} is not scheduled: {message}", pod.name_any()))
    };
    clique.live().filter(|pod| !pod.is_scheduled() && !is_terminating(*pod)).find_map(rejection)
}
