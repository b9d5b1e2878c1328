//! Plans the next writes for a topology: its finalizer, the levels of the managed default, and its topology objects of schedulers.

use std::collections::BTreeMap;
use std::time::Duration;

use grove_api_types::conditions::cluster_topology_ready;
use grove_api_types::finalizers;
use grove_api_types::text::join_names;
use grove_controller::children::StepFilter;
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use serde_json::json;

use super::CHILD_KINDS;
use super::observed::{LiveReferences, Observed};
use crate::default_topology;
use crate::scheduler_topologies::with_drift_event;

/// The time to the next live LIST after one that failed. No watch event would trigger it.
const LIST_RETRY: Duration = Duration::from_secs(5);
/// A message names at most this many sets, and counts the others.
const MAX_NAMED_SETS: usize = 3;

/// The plan for one topology. The stages are independent: a rejected level neither removes the finalizer nor blocks a topology object.
pub(crate) fn plan(observed: &Observed) -> Plan {
    if observed.is_terminating() {
        return plan_of_terminating(observed);
    }
    let finalizer = Step::add_finalizer(&observed.topology, finalizers::CLUSTER_TOPOLOGY);
    let blocked = observed.levels_blocked_by();
    let waiting = blocked.map(|message| Waiting::new(cluster_topology_ready::LEVELS_IN_USE, message));
    let conditions = observed.topology.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warning = waiting.as_ref().and_then(|waiting| default_topology::warning(waiting, conditions));
    let levels = observed.desired_levels().filter(|_| waiting.is_none()).map(|desired| json!(desired.spec.levels));
    let mut plan = Plan::new()
        .stage(Stage::new("finalizer", finalizer))
        .stage(default_topology::restoration(&observed.topology, observed.is_managed(), levels))
        .waiting(waiting)
        .with_warnings(warning);
    if observed.configuration.enabled {
        let (expansion, no_labels) = (observed.expand(), BTreeMap::new());
        let filter = StepFilter::new(observed.conflicts(&no_labels), &observed.backed_off, &observed.pending_creates);
        let of_children = CHILD_KINDS.plan(&observed.children, &expansion, filter);
        plan.stages.extend(of_children.stages);
        plan = Plan { stages: plan.stages, warnings: plan.warnings, ..of_children }.waiting(plan.waiting);
        plan = with_drift_event(plan, &observed.pending_creates, conditions, observed.drift());
    }
    plan.with_independent_stages()
}

fn plan_of_terminating(observed: &Observed) -> Plan {
    let finalizer = Step::remove_finalizer(&observed.topology, finalizers::CLUSTER_TOPOLOGY);
    let finalizer = finalizer.filter(|_| observed.may_be_deleted());
    let plan = Plan::new().stage(Stage::new("finalizer", finalizer)).waiting(deletion_waits_for(observed));
    if observed.live_references == LiveReferences::Failed { plan.requeue_after(LIST_RETRY) } else { plan }
}

/// What the deletion waits for.
fn deletion_waits_for(observed: &Observed) -> Option<Waiting> {
    let names: Vec<&str> = observed.referring_sets.iter().map(|referring| referring.set.as_str()).collect();
    let sets = |names: &[&str]| {
        format!(
            "the deletion waits until no PodCliqueSet refers to the topology: {}",
            join_names(names, MAX_NAMED_SETS)
        )
    };
    let message = match &observed.live_references {
        LiveReferences::None => return None,
        LiveReferences::Some(set) => sets(&[set]),
        LiveReferences::Failed => "the deletion waits for a list of the PodCliqueSets".to_owned(),
        LiveReferences::NotRead if !names.is_empty() => sets(&names),
        LiveReferences::NotRead if observed.is_enabled_default() => {
            "the topology is the default topology of the configuration; its deletion ends when the configuration names \
             another one or disables topology-aware scheduling"
                .to_owned()
        }
        LiveReferences::NotRead => "the deletion waits for finalizers of others".to_owned(),
    };
    Some(Waiting::new(cluster_topology_ready::TERMINATING, message))
}
