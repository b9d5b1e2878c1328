//! Whether the topology objects of schedulers have the levels of a topology. Pure.

use grove_api_types::conditions::{SCHEDULER_TOPOLOGY_DRIFT, scheduler_topology_drift};
use grove_api_types::events;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::SchedulerTopologyStatus;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate};
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::{NormalEvent, Plan, WarningEvent};
use grove_runtime::caches::Availability;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use super::LiveSchedulerTopology;

/// The topology object of a scheduler that a topology refers to.
#[derive(Clone, Debug)]
pub(crate) struct ObservedSchedulerTopology {
    /// The scheduler.
    pub(crate) scheduler: Scheduler,
    /// The scheduler and the kind of the object, for messages.
    pub(crate) display_name: &'static str,
    /// The name of the CRD of the object.
    pub(crate) crd_name: String,
    /// The name of the object.
    pub(crate) reference: String,
    /// Whether an administrator manages the object.
    pub(crate) is_external: bool,
    /// Whether the API server lists objects of the kind.
    pub(crate) availability: Availability,
    /// The object; `None` if it does not exist.
    pub(crate) live: Option<LiveSchedulerTopology>,
}

/// The schedulers for which Grove creates a topology object: an administrator manages none, and the API server serves the kind.
pub(crate) fn managed_schedulers<'a>(
    topologies: impl IntoIterator<Item = &'a ObservedSchedulerTopology>,
) -> Vec<Scheduler> {
    let is_managed =
        |topology: &&ObservedSchedulerTopology| !topology.is_external && topology.availability == Availability::Served;
    topologies.into_iter().filter(is_managed).map(|topology| topology.scheduler).collect()
}

/// The status of the topology object of one scheduler. `topology` is the topology with these node labels.
pub(crate) fn status_of<K: Resource<DynamicType = ()>>(
    observed: &ObservedSchedulerTopology,
    topology: &K,
    node_labels: &[String],
) -> SchedulerTopologyStatus {
    let message = difference(observed, topology, node_labels);
    let generation = observed.live.as_ref().filter(|_| observed.is_external).and_then(|live| live.generation);
    SchedulerTopologyStatus {
        scheduler_name: observed.scheduler.name().to_owned(),
        topology_reference: observed.reference.clone(),
        in_sync: message.is_none(),
        scheduler_backend_topology_observed_generation: generation,
        message,
    }
}

/// The difference; `None` if the object has the levels of the topology.
fn difference<K: Resource<DynamicType = ()>>(
    ObservedSchedulerTopology { scheduler, display_name, crd_name, reference, is_external, availability, live }: &ObservedSchedulerTopology,
    topology: &K,
    node_labels: &[String],
) -> Option<String> {
    let kind = K::kind(&());
    match (availability, live) {
        (Availability::NotServed, _) => {
            Some(format!("the API server does not serve {crd_name}; install {}", scheduler.name()))
        }
        (Availability::Forbidden, _) => Some(format!(
            "topology-controller must not read {crd_name}; add the component deploy/components/{}",
            scheduler.name()
        )),
        (Availability::Served, None) => Some(format!("{display_name} {reference:?} not found")),
        (Availability::Served, Some(live)) => {
            let is_controlled = live.controller.is_some() && live.controller == topology.uid();
            if !is_external && !is_controlled {
                let name = topology.name_any();
                Some(format!(
                    "{display_name} {reference:?} exists and {kind} {name} does not control it; delete or rename it"
                ))
            } else if live.node_labels != node_labels {
                Some(format!("{display_name} levels differ from {kind} levels"))
            } else if !is_external && live.is_terminating {
                Some(format!("{display_name} {reference:?} is being deleted; its successor is created then"))
            } else {
                None
            }
        }
    }
}

/// The condition about all topology objects; `None` if there are none. `is_unavailable`: the topology names a scheduler that is not configured
/// or has no topology objects.
pub(crate) fn drift_condition(
    statuses: &[SchedulerTopologyStatus],
    is_unavailable: bool,
    observed_generation: Option<i64>,
) -> Option<ConditionUpdate> {
    use scheduler_topology_drift::{DRIFT, IN_SYNC, TOPOLOGY_NOT_FOUND};
    let (status, reason, message) = if is_unavailable {
        let message = "One or more referenced scheduler backends are unavailable for topology management";
        (ConditionStatus::Unknown, TOPOLOGY_NOT_FOUND, message)
    } else if statuses.is_empty() {
        return None;
    } else if statuses.iter().any(|status| !status.in_sync) {
        (ConditionStatus::True, DRIFT, "One or more scheduler backend topologies have drifted")
    } else {
        (ConditionStatus::False, IN_SYNC, "All scheduler backend topologies are in sync")
    };
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Some(ConditionUpdate { type_: SCHEDULER_TOPOLOGY_DRIFT, status, reason, message, observed_generation })
}

/// The plan, with an event if the condition has another outcome than in `old`: a warning if the levels begin to differ, otherwise a normal event.
/// While objects are created or deleted, the levels differ for a moment, so there is no event.
pub(crate) fn with_drift_event<'a>(
    plan: Plan,
    pending_creates: &PendingCreates,
    old: impl IntoIterator<Item = &'a Condition>,
    new: Option<ConditionUpdate>,
) -> Plan {
    let Some(new) = new.filter(|_| plan.is_empty() && pending_creates.is_empty()) else { return plan };
    let old = old.into_iter().find(|condition| condition.type_ == SCHEDULER_TOPOLOGY_DRIFT);
    if old.is_some_and(|old| old.status == new.status.as_str()) {
        return plan;
    }
    let note = new.message;
    match new.status {
        ConditionStatus::True => plan.with_warnings([WarningEvent { reason: events::TOPOLOGY_DRIFT_DETECTED, note }]),
        ConditionStatus::False => plan.with_normal_events([NormalEvent { reason: events::TOPOLOGY_IN_SYNC, note }]),
        ConditionStatus::Unknown => plan,
    }
}
