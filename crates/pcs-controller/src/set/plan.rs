//! Plans the next writes for a set: compares the observed children with the desired ones.

use std::time::Duration;

use grove_api_types::{finalizers, labels};
use grove_controller::children::StepFilter;
use grove_controller::plan::Plan;

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use crate::children::too_large;
use crate::claims;

/// The delay of the next LIST for a decision about an incarnation after a failed one.
const DECISION_RETRY: Duration = Duration::from_secs(10);

/// The delay of the next LIST of the pods that may use an identity that the set does not need any more.
const IDENTITY_RETRY: Duration = Duration::from_mins(10);

/// The plan for one set. It creates and patches the children in the order of [`CHILD_KINDS`], and then deletes those that
/// the set no longer expands to: the children of removed replicas, and of cliques and groups that were removed from the
/// template. A child that cannot be created, because of a name conflict or a rejection, blocks only later creates of its own
/// replica. If a clique or a group, or the recorded scale of a missing one, cannot be decoded, the whole set waits: the scale decides which
/// gangs the set has. In a terminating namespace the plan has no creates.
pub(crate) fn plan(observed: &Observed) -> Plan {
    if observed.is_terminating() {
        let Observed { set, children, orphans_children, .. } = observed;
        return CHILD_KINDS.plan_for_terminating_owner(
            set,
            Some(finalizers::POD_CLIQUE_SET),
            children,
            *orphans_children,
        );
    }
    if let Some(limit) = observed.exceeded_limit() {
        return Plan::new().waiting([too_large::waiting(limit)]);
    }
    let base_labels = labels::base(&observed.name());
    let conflicts = observed.conflicts(&base_labels);
    if observed.has_unknown_scale() {
        return Plan::new().waiting(conflicts.unresolved().map(|(_, waiting)| waiting));
    }
    if let Some(waiting) = observed.unreadable_scale() {
        return Plan::new().waiting([waiting]);
    }
    let filter = StepFilter::new(conflicts, &observed.backed_off, &observed.pending_creates)
        .without_creates_if(observed.is_namespace_terminating);
    let plan = CHILD_KINDS.plan(&observed.children, &observed.expansion(), filter);
    let conditions = observed.set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warning = claims::plan::template_warning(&plan, conditions);
    let plan = plan.with_warnings(warning);
    let has_open_decision =
        observed.gang_decisions.need_bound_pods().next().is_some() || observed.gang_decisions.needs_cliques();
    let plan = if has_open_decision { plan.requeue_after(DECISION_RETRY) } else { plan };
    // No watch event shows that the last pod with the token has ended.
    if observed.identity.is_in_use { plan.requeue_after(IDENTITY_RETRY) } else { plan }
}
