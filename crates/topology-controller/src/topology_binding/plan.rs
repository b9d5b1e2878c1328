//! Plans the next writes for a binding: restores the levels and the label of the managed default, and creates and deletes its topology objects
//! of schedulers.

use std::collections::BTreeMap;

use grove_api_types::conditions::cluster_topology_ready::LEVELS_DIFFER;
use grove_controller::children::StepFilter;
use grove_controller::plan::{Plan, Waiting};
use serde_json::json;

use super::CHILD_KINDS;
use super::observed::Observed;
use crate::default_topology;
use crate::scheduler_topologies::with_drift_event;

/// The plan for one binding. A topology object that a binding names, or that it does not control, is not changed.
pub(crate) fn plan(observed: &Observed) -> Plan {
    let Observed { binding, children, orphans_children, .. } = observed;
    if observed.is_terminating() {
        return CHILD_KINDS.plan_for_terminating_owner(binding, None, children, *orphans_children);
    }
    let of_default = plan_of_default(observed);
    if !observed.configuration.enabled {
        return of_default;
    }
    let (expansion, no_labels) = (observed.expand(), BTreeMap::new());
    let filter = StepFilter::new(observed.conflicts(&no_labels), &observed.backed_off, &observed.pending_creates);
    let of_children = CHILD_KINDS.plan(children, &expansion, filter);
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let plan = with_drift_event(of_children, &observed.pending_creates, conditions, observed.drift());
    let stages = of_default.stages.into_iter().chain(plan.stages).collect();
    Plan { stages, ..plan }.waiting(of_default.waiting).with_warnings(of_default.warnings).with_independent_stages()
}

/// Restores the levels and the label of the managed default. A binding with other levels that sets use remains as it is.
fn plan_of_default(observed: &Observed) -> Plan {
    let binding = &observed.binding;
    if let Some(message) = observed.other_levels() {
        let waiting = Waiting::new(LEVELS_DIFFER, message);
        let conditions = binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let warning = default_topology::warning(&waiting, conditions);
        return Plan::new().waiting([waiting]).with_warnings(warning);
    }
    let levels = observed.desired_levels().map(|levels| json!(levels));
    Plan::new().stage(default_topology::restoration(binding, observed.is_managed(), levels))
}
