//! Plans the next writes for a binding: creates and deletes its topology objects of schedulers.

use std::collections::BTreeMap;

use grove_controller::children::StepFilter;
use grove_controller::plan::Plan;
use k8s_openapi::jiff::Timestamp;

use super::CHILD_KINDS;
use super::observed::Observed;
use crate::scheduler_topologies::with_drift_event;

/// The plan for one binding. A topology object that a binding names, or that it does not control, is not changed.
pub(crate) fn plan(observed: &Observed, _now: Timestamp) -> Plan {
    let Observed { binding, children, orphans_children, .. } = observed;
    if observed.is_terminating() {
        return CHILD_KINDS.plan_for_terminating_owner(binding, None, children, *orphans_children);
    }
    if !observed.is_enabled {
        return Plan::new();
    }
    let (expansion, no_labels) = (observed.expand(), BTreeMap::new());
    let filter = StepFilter::new(observed.conflicts(&no_labels), &observed.backed_off, &observed.pending_creates);
    let plan = CHILD_KINDS.plan(children, &expansion, filter);
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    with_drift_event(plan, &observed.pending_creates, conditions, observed.drift())
}
