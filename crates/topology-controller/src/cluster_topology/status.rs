//! The status of a topology. When it is written: `grove-controller/src/status_limiter.rs`, with a longer interval.

use grove_api_types::conditions::{self, cluster_topology_ready};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyStatus, LastError, NodesWithoutKey};
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, remove_status_condition, set_status_condition};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::rejections::{RejectedObjects, rejection_message};
use grove_controller::status_limiter::StatusChange;
use grove_controller::status_writer::as_count;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The status names at most this many sets.
const MAX_NAMED_SETS: usize = 10;

/// The status of the topology after its plan was executed.
pub(crate) fn status(
    observed: &Observed,
    plan: &Plan,
    result: &ExecutionResult,
    now: Timestamp,
) -> ClusterTopologyStatus {
    let old = observed.topology.status.clone().unwrap_or_default();
    let mut conditions = old.conditions;
    set_status_condition(&mut conditions, ready(observed, plan, result), now);
    match observed.drift() {
        Some(drift) => set_status_condition(&mut conditions, drift, now),
        None => remove_status_condition(&mut conditions, conditions::SCHEDULER_TOPOLOGY_DRIFT),
    }
    let referring = &observed.referring_sets;
    let errors = observed.backed_off.last_errors::<ClusterTopology>(result);
    ClusterTopologyStatus {
        observed_generation: observed.topology.metadata.generation,
        last_errors: LastError::update(&old.last_errors, errors, &Time(now)),
        conditions,
        referring_sets: Some(as_count(referring.len())),
        referring_set_names: referring.iter().take(MAX_NAMED_SETS).map(|referring| referring.set.clone()).collect(),
        scheduled_sets: Some(as_count(referring.iter().filter(|referring| referring.is_scheduled).count())),
        nodes: Some(as_count(observed.nodes.count)),
        nodes_without_key: nodes_without_key(observed),
    }
}

fn nodes_without_key(observed: &Observed) -> Vec<NodesWithoutKey> {
    let without = |key: String| {
        let with_key = observed.nodes.with_key.get(&key).copied().unwrap_or(0);
        NodesWithoutKey { nodes: as_count(observed.nodes.count.saturating_sub(with_key)), key }
    };
    observed.node_labels().into_iter().map(without).collect()
}

/// A change is significant if a condition has another status or reason, or if there was no status. Counts are a minor change.
pub(crate) fn status_change(observed: &Observed, new: &ClusterTopologyStatus) -> StatusChange {
    let Some(old) = &observed.topology.status else { return StatusChange::Significant };
    let outcomes = |status: &ClusterTopologyStatus| {
        let outcome = |condition: &Condition| (condition.status.clone(), condition.reason.clone());
        status.conditions.iter().map(outcome).collect::<Vec<_>>()
    };
    let is_significant = outcomes(old) != outcomes(new) || old.last_errors != new.last_errors;
    if is_significant { StatusChange::Significant } else { StatusChange::Minor }
}

fn ready(observed: &Observed, plan: &Plan, result: &ExecutionResult) -> ConditionUpdate {
    let own = [cluster_topology_ready::TERMINATING, cluster_topology_ready::LEVELS_IN_USE];
    let waiting = plan.waiting.iter().find(|waiting| own.contains(&waiting.reason));
    let rejection = || {
        let of_default = result.steps.iter().filter(|step| step.stage == "default-topology");
        let failed = ExecutionResult { steps: of_default.cloned().collect() };
        rejection_message(&failed, &BackedOffCreates::default(), RejectedObjects::Named)
    };
    let (status, reason, message) = if let Some(waiting) = waiting {
        (ConditionStatus::False, waiting.reason, waiting.message.clone())
    } else if let Some((_, message)) = rejection() {
        (ConditionStatus::False, cluster_topology_ready::LEVELS_REJECTED, message)
    } else if observed.is_terminating() {
        let message = "the topology is being deleted".to_owned();
        (ConditionStatus::False, cluster_topology_ready::TERMINATING, message)
    } else {
        (ConditionStatus::True, cluster_topology_ready::AVAILABLE, "sets can refer to the topology".to_owned())
    };
    let observed_generation = observed.topology.metadata.generation;
    ConditionUpdate { type_: conditions::READY, status, reason: reason.to_owned(), message, observed_generation }
}
