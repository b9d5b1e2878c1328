//! What a plan reports about claims: the reason to wait, and the warning about templates that do not exist. Pure.

use grove_api_types::conditions::{self, resource_claims_created as reasons};
use grove_api_types::events;
use grove_controller::conditions::find_status_condition;
use grove_controller::plan::{Plan, Waiting, WarningEvent};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A message contains at most this many objects, and counts the others.
pub(super) const MAX_NAMED: usize = 5;

/// The warning about templates that do not exist, unless the condition reports them: then an earlier warning did, too.
pub(crate) fn template_warning(plan: &Plan, conditions: &[Condition]) -> Option<WarningEvent> {
    let is_missing = |waiting: &&Waiting| waiting.reason == reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND;
    let messages: Vec<_> = plan.waiting.iter().filter(is_missing).map(|waiting| waiting.message.as_str()).collect();
    let condition = find_status_condition(conditions, conditions::RESOURCE_CLAIMS_CREATED);
    let is_reported = |message: &&str| condition.is_some_and(|condition| condition.message.contains(*message));
    let named = messages.iter().take(MAX_NAMED);
    if messages.is_empty() || named.clone().all(is_reported) {
        return None;
    }
    Some(WarningEvent { reason: events::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND, note: join_messages(&messages) })
}

/// The first reason why a claim cannot be created, for the condition `Available`.
pub(crate) fn first_waiting(plan: &Plan) -> Option<&Waiting> {
    let of_claims = [
        reasons::RESOURCE_CLAIMS_NOT_SERVED,
        reasons::RESOURCE_CLAIMS_FORBIDDEN,
        reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND,
        reasons::RESOURCE_CLAIMS_PENDING,
    ];
    plan.waiting.iter().find(|waiting| of_claims.contains(&waiting.reason))
}

pub(super) fn join_messages(messages: &[&str]) -> String {
    let (first, rest) = messages.split_at(messages.len().min(MAX_NAMED));
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
    format!("{}{more}", first.join("; "))
}
