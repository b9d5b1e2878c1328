//! The status of a binding. When it is written: `grove-controller/src/status_limiter.rs`.

use grove_api_types::conditions::cluster_topology_ready::LEVELS_DIFFER;
use grove_api_types::conditions::{READY, SCHEDULER_TOPOLOGY_DRIFT};
use grove_api_types::v1alpha1::{ClusterTopologyBindingStatus, SchedulerTopologyBinding, SchedulerTopologyStatus};
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, remove_status_condition, set_status_condition};
use grove_controller::executor::ExecutionResult;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The status of the binding after its plan was executed. The generation is observed once all writes succeeded.
pub(crate) fn status(observed: &Observed, result: &ExecutionResult, now: Timestamp) -> ClusterTopologyBindingStatus {
    let old = observed.binding.status.clone().unwrap_or_default();
    let is_complete = result.succeeded() && observed.backed_off.children.is_empty();
    let generation = observed.binding.metadata.generation;
    let mut conditions = old.conditions;
    match observed.drift() {
        Some(drift) => set_status_condition(&mut conditions, drift, now),
        None => remove_status_condition(&mut conditions, SCHEDULER_TOPOLOGY_DRIFT),
    }
    match ready(observed) {
        Some(ready) => set_status_condition(&mut conditions, ready, now),
        None => remove_status_condition(&mut conditions, READY),
    }
    ClusterTopologyBindingStatus {
        observed_generation: if is_complete { generation } else { old.observed_generation },
        conditions,
        scheduler_topology_statuses: scheduler_topology_statuses(observed),
    }
}

/// A binding has the condition only while it is the reason why the configured default topology does not exist.
fn ready(observed: &Observed) -> Option<ConditionUpdate> {
    Some(ConditionUpdate {
        type_: READY,
        status: ConditionStatus::False,
        reason: LEVELS_DIFFER.to_owned(),
        message: observed.other_levels()?,
        observed_generation: observed.binding.metadata.generation,
    })
}

/// The statuses of the schedulers with topology objects, sorted by name, and one for each scheduler that is named and unavailable.
fn scheduler_topology_statuses(observed: &Observed) -> Vec<SchedulerTopologyStatus> {
    let mut statuses = observed.available();
    let unavailable = |external: &SchedulerTopologyBinding| SchedulerTopologyStatus {
        scheduler_name: external.scheduler_name.clone(),
        topology_reference: external.topology_reference.clone(),
        in_sync: false,
        scheduler_backend_topology_observed_generation: None,
        message: Some("the scheduler is not configured, or has no topology objects".to_owned()),
    };
    statuses.extend(observed.unavailable().map(unavailable));
    statuses.sort_by(|a, b| a.scheduler_name.cmp(&b.scheduler_name));
    statuses
}
