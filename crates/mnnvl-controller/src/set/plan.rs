//! Plans the next writes for a set: compares its domains with the desired ones.

use std::collections::BTreeMap;

use grove_api_types::conditions::{self, available};
use grove_api_types::events;
use grove_controller::children::StepFilter;
use grove_controller::conditions::find_status_condition;
use grove_controller::plan::{Plan, Waiting, WarningEvent};

use super::desired::CHILD_KINDS;
use super::observed::Observed;

/// The condition of a set names this many objects that only a user can correct, so a plan has at most this many warnings about them.
pub(super) const MAX_NAMED: usize = 10;
/// The reasons about an object with the name of a domain that only a user can resolve.
const FOREIGN_OBJECT: [&str; 2] = [available::NAME_CONFLICT, available::UNREADABLE_OBJECT];

/// The plan for one set: creates and restores its domains. The reconciler of domains deletes those that the set no longer needs. A domain that
/// cannot be created blocks no other one. In a terminating namespace the plan has no creates.
pub(crate) fn plan(observed: &Observed) -> Plan {
    if observed.is_terminating() {
        return Plan::new();
    }
    if observed.is_too_large() {
        let message = "the set is larger than Grove allows; its condition Available names the limit";
        return Plan::new().waiting([Waiting::new(available::TOO_MANY_OBJECTS, message)]);
    }
    let no_labels = BTreeMap::new();
    let filter = StepFilter::new(observed.conflicts(&no_labels), &observed.backed_off, &observed.pending_creates)
        .without_creates_if(observed.is_namespace_terminating);
    let plan = CHILD_KINDS.plan(&observed.children, &observed.expand(), filter);
    let warnings = warnings(observed, &plan);
    plan.with_warnings(warnings)
}

/// Warnings about what only a user can resolve, unless the condition of the set reports it: then an earlier warning did, too.
fn warnings(observed: &Observed, plan: &Plan) -> Vec<WarningEvent> {
    let foreign = plan.waiting.iter().filter(|waiting| FOREIGN_OBJECT.contains(&waiting.reason)).take(MAX_NAMED);
    let unreported = foreign.filter(|waiting| !is_reported(observed, waiting));
    let warning = |Waiting { reason: _, message }: &Waiting| WarningEvent {
        reason: events::COMPUTE_DOMAIN_FAILED,
        note: message.clone(),
    };
    unreported.map(warning).collect()
}

fn is_reported(observed: &Observed, waiting: &Waiting) -> bool {
    let conditions = observed.set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = find_status_condition(conditions, conditions::COMPUTE_DOMAINS_CREATED);
    condition.is_some_and(|condition| condition.message.contains(&waiting.message))
}
