//! Plans the next writes for a scaling group: compares the observed children with the desired ones.

use std::time::Duration;

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::finalizers;
use grove_controller::children::StepFilter;
use grove_controller::plan::{Plan, Waiting};
use k8s_openapi::jiff::Timestamp;

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use super::recorded_scale;
use crate::children::too_large;
use crate::{claims, update};

/// The delay of the next plan if another owner has a name of the identity of the set.
const CONFLICT_RETRY: Duration = Duration::from_secs(10);

/// The plan for one group. It creates a clique once the clique's gang exists, and deletes the cliques of replicas beyond
/// the replica count of the group. A rejected clique blocks nothing else, in particular not the deletes that may release
/// quota for it. In a terminating namespace the plan has no creates. At the end it records the scale of the cliques.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if observed.is_terminating() {
        let Observed { group, children, orphans_children, .. } = observed;
        return CHILD_KINDS.plan_for_terminating_owner(
            group,
            Some(finalizers::SCALING_GROUP),
            children,
            *orphans_children,
        );
    }
    let Some(set) = &observed.set else { return Plan::new().waiting([set_not_found()]) };
    if let Some(limit) = observed.exceeded_limit() {
        return Plan::new().waiting([too_large::waiting(limit)]);
    }
    // A set that is terminating, or no longer has the group, deletes the group.
    let expansion = observed.expansion().filter(|_| !is_terminating(set));
    let Some(expansion) = expansion else { return Plan::new() };
    let base_labels = observed.base_labels();
    let conflicts = observed.conflicts(&base_labels);
    let filter = StepFilter::new(conflicts, &observed.backed_off, &observed.pending_creates)
        .without_creates_if(observed.is_namespace_terminating);
    let plan = CHILD_KINDS.plan(&observed.children, &expansion, filter);
    let plan = plan.stage(recorded_scale::stage(observed, &expansion));
    let conditions = observed.group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warning = claims::plan::template_warning(&plan, conditions);
    let plan = deadline_delay(observed, now).into_iter().fold(plan.with_warnings(warning), Plan::requeue_after);
    // No watch event shows that another owner frees the name.
    if observed.identity_conflict.is_some() { plan.requeue_after(CONFLICT_RETRY) } else { plan }
}

/// The time until the update exceeds its deadline. No watch event shows that.
fn deadline_delay(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let progress = observed.group.status.as_ref()?.update_progress.as_ref()?;
    let deadline = update::group_deadline(progress, observed.progress_deadline())?;
    Duration::try_from(deadline.duration_since(now)).ok().filter(|delay| !delay.is_zero())
}

fn set_not_found() -> Waiting {
    Waiting::new(available::POD_CLIQUE_SET_NOT_FOUND, "the PodCliqueSet that controls the group does not exist")
}
