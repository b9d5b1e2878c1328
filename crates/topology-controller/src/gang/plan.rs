//! Plans the next writes for a gang: compares its `PodGroup` with the desired one.

use grove_api_types::conditions::{self, available, gang_scheduling};
use grove_api_types::events;
use grove_controller::children::StepFilter;
use grove_controller::plan::{Plan, Waiting, WarningEvent};

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use crate::pod_groups::{GangExpansion, PodGroupApi};

/// The reasons about an object with the name of the `PodGroup` that only a user can resolve.
const FOREIGN_OBJECT: [&str; 2] = [available::NAME_CONFLICT, available::UNREADABLE_OBJECT];

/// The plan for one gang: creates, patches and deletes its `PodGroup`. In a terminating namespace it has no creates.
pub(crate) fn plan(observed: &Observed) -> Plan {
    if observed.is_terminating() {
        let Observed { gang, children, orphans_children, .. } = observed;
        return CHILD_KINDS.plan_for_terminating_owner(gang, None, children, *orphans_children);
    }
    if let Some(waiting) = observed.unreadable() {
        // Without the name and the fields, a PodGroup of the gang could be deleted, or created with other fields.
        let plan = Plan::new().waiting([waiting]);
        let warnings = warnings(observed, &plan);
        return plan.with_warnings(warnings);
    }
    let (expansion, base_labels) = (observed.expand(), observed.base_labels());
    let conflicts = observed.conflicts(&base_labels);
    let filter = StepFilter::new(conflicts, &observed.backed_off, &observed.pending_creates)
        .without_creates_if(observed.is_namespace_terminating);
    let plan = CHILD_KINDS.plan(&observed.children, &expansion, filter);
    let existing = waiting_of_existing(observed, &expansion).filter(|waiting| !plan.waiting.contains(waiting));
    let plan = plan.waiting(existing);
    let warnings = warnings(observed, &plan);
    plan.with_warnings(warnings)
}

/// Why an existing `PodGroup` is not what it should be: it is terminating, or its spec is unknown, so that it stays as it is.
fn waiting_of_existing(observed: &Observed, expansion: &GangExpansion<'_>) -> Option<Waiting> {
    let api = PodGroupApi::of(observed.scheduler)?;
    if let Some(live) = observed.live_pod_group().filter(|live| live.is_terminating) {
        let message = format!("PodGroup {} is being deleted; {}", live.name, api.after_deletion());
        return Some(Waiting::new(available::NAME_TERMINATING, message));
    }
    expansion.pod_group.as_ref()?.spec.as_ref().err().cloned()
}

/// Warnings about what only a user can resolve, unless a condition of the gang reports it: then an earlier warning did, too.
fn warnings(observed: &Observed, plan: &Plan) -> Vec<WarningEvent> {
    let unknown_spec_event = PodGroupApi::of(observed.scheduler).map_or("", PodGroupApi::unknown_spec_event);
    let is_of_spec = |waiting: &Waiting| observed.unknown_spec().is_some_and(|unknown| unknown == *waiting);
    let reason = |waiting: &Waiting| match waiting.reason {
        reason if FOREIGN_OBJECT.contains(&reason) => Some(events::POD_GROUP_CREATE_OR_UPDATE_FAILED),
        gang_scheduling::UNREADABLE_ANNOTATION => Some(events::UNREADABLE_ANNOTATION),
        gang_scheduling::SCHEDULER_UNKNOWN => Some(events::SCHEDULER_UNKNOWN),
        _ => is_of_spec(waiting).then_some(unknown_spec_event).filter(|reason| !reason.is_empty()),
    };
    let unreported = plan.waiting.iter().filter(|waiting| !is_reported(observed, waiting));
    let warning = |waiting: &Waiting| Some(WarningEvent { reason: reason(waiting)?, note: waiting.message.clone() });
    unreported.filter_map(warning).collect()
}

/// Whether a condition of the gang reports the reason.
fn is_reported(observed: &Observed, waiting: &Waiting) -> bool {
    let conditions = observed.gang.status.iter().flat_map(|status| &status.conditions);
    let mut of_type = conditions.filter(|condition| condition.type_ == conditions::GANG_SCHEDULING);
    of_type.any(|condition| condition.reason == waiting.reason && condition.message == waiting.message)
}
