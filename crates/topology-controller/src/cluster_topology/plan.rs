//! Plans the next writes for a topology: its finalizer, the levels of the managed default, and its topology objects of schedulers.

use std::collections::BTreeMap;
use std::time::Duration;

use grove_api_types::conditions::cluster_topology_ready;
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::text::join_names;
use grove_api_types::{events, finalizers};
use grove_controller::children::StepFilter;
use grove_controller::conditions::find_status_condition;
use grove_controller::plan::{Plan, Stage, Step, Waiting, WarningEvent};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::CHILD_KINDS;
use super::observed::{LiveReferences, Observed};
use crate::scheduler_topologies::with_drift_event;

/// The time to the next live LIST after one that failed. No watch event would trigger it.
const LIST_RETRY: Duration = Duration::from_secs(5);
/// A message names at most this many sets, and counts the others.
const MAX_NAMED_SETS: usize = 3;

/// The plan for one topology. The stages are independent: a rejected level neither removes the finalizer nor blocks a topology object.
pub(crate) fn plan(observed: &Observed, _now: Timestamp) -> Plan {
    if observed.is_terminating() {
        return plan_of_terminating(observed);
    }
    let finalizer = Step::add_finalizer(&observed.topology, finalizers::CLUSTER_TOPOLOGY);
    let blocked = observed.levels_blocked_by();
    let waiting = blocked.map(|message| Waiting::new(cluster_topology_ready::LEVELS_IN_USE, message));
    let warning = waiting.iter().filter(|waiting| !is_reported(observed, waiting));
    let warning: Vec<WarningEvent> = warning.map(levels_warning).collect();
    let mut plan = Plan::new()
        .stage(Stage::new("finalizer", finalizer))
        .stage(default_stage(observed, waiting.is_some()))
        .waiting(waiting)
        .with_warnings(warning);
    if observed.configuration.enabled {
        let (expansion, no_labels) = (observed.expand(), BTreeMap::new());
        let filter = StepFilter::new(observed.conflicts(&no_labels), &observed.backed_off, &observed.pending_creates);
        let of_children = CHILD_KINDS.plan(&observed.children, &expansion, filter);
        plan.stages.extend(of_children.stages);
        plan = Plan { stages: plan.stages, warnings: plan.warnings, ..of_children }.waiting(plan.waiting);
        let conditions = observed.topology.status.iter().flat_map(|status| &status.conditions);
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

/// The stage that restores the levels and the label of the managed default, and that removes the label from a topology that is no longer
/// managed. The levels stay while they are blocked.
fn default_stage(observed: &Observed, is_blocked: bool) -> Stage {
    let (is_managed, has_label) = (observed.is_managed(), observed.has_manager_label());
    let mut change = Map::new();
    if is_managed != has_label {
        let label = if is_managed { json!(GROVE_OPERATOR) } else { Value::Null };
        change.insert("metadata".to_owned(), json!({ "labels": { MANAGED_BY: label } }));
    }
    let levels = observed.desired_levels().filter(|_| !is_blocked);
    if let Some(desired) = &levels {
        change.insert("spec".to_owned(), json!({ "levels": desired.spec.levels }));
    }
    let success = if is_managed && !has_label {
        Some((events::DEFAULT_TOPOLOGY_ADOPTED, "Adopted"))
    } else {
        levels.map(|_| (events::DEFAULT_TOPOLOGY_UPDATED, "Updated"))
    };
    let patch = Some(change).filter(|change| !change.is_empty());
    let patch = patch.map(|change| Step::merge_patch_with_optimistic_lock(&observed.topology, Value::Object(change)));
    let stage = Stage::new("default-topology", patch);
    match success {
        Some((reason, verb)) => stage.with_event(reason, events::DEFAULT_TOPOLOGY_UPDATE_FAILED, verb),
        None => stage.with_failure_event(events::DEFAULT_TOPOLOGY_UPDATE_FAILED),
    }
}

fn levels_warning(waiting: &Waiting) -> WarningEvent {
    WarningEvent { reason: events::DEFAULT_TOPOLOGY_UPDATE_FAILED, note: waiting.message.clone() }
}

/// Whether the condition of the topology reports the reason.
fn is_reported(observed: &Observed, waiting: &Waiting) -> bool {
    let conditions = observed.topology.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find_status_condition(conditions, grove_api_types::conditions::READY)
        .is_some_and(|condition| condition.reason == waiting.reason && condition.message == waiting.message)
}
