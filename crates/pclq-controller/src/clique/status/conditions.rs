//! The conditions of a clique.

use grove_api_types::conditions::{self, available, min_available_breached, pod_clique_scheduled};
use grove_api_types::v1alpha1::PodCliqueUpdateProgress;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, remove_status_condition, set_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::rejections::{RejectedObjects, rejection_message};
use grove_controller::slim_pod::SlimPod;
use grove_controller::status_writer::as_count;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::waiting_pods;
use crate::clique::observed::Observed;
use crate::{claims, startup, update};

/// The status of a condition, its reason and its message.
type ConditionState = (ConditionStatus, &'static str, String);

/// Sets all conditions of the clique.
pub(super) fn set_all(
    conditions: &mut Vec<Condition>,
    observed: &Observed,
    (plan, result): (&Plan, &ExecutionResult),
    progress: Option<&PodCliqueUpdateProgress>,
    now: Timestamp,
) {
    let is_updating = progress.is_some_and(PodCliqueUpdateProgress::is_in_progress);
    let rejection = rejection_message(result, &observed.all_backed_off(), RejectedObjects::Counted);
    let computed = [
        (conditions::POD_CLIQUE_SCHEDULED, scheduled_condition(observed)),
        (conditions::MIN_AVAILABLE_BREACHED, min_available_breached_condition(observed, is_updating)),
        (conditions::AVAILABLE, available_condition(observed, plan, rejection.as_ref())),
    ];
    for (type_, (status, reason, message)) in computed {
        let reason = reason.to_owned();
        let observed_generation = observed.clique.metadata.generation;
        set_status_condition(conditions, ConditionUpdate { type_, status, reason, message, observed_generation }, now);
    }
    let cause = || rejection.as_ref().map(|(_, message)| message.clone()).or_else(|| unschedulable(observed));
    if let Some(state) = update::state(observed, progress, cause) {
        set_status_condition(conditions, state.condition(observed.clique.metadata.generation), now);
    }
    match claims::condition(observed, &observed.claims, plan, result) {
        Some(condition) => set_status_condition(conditions, condition, now),
        None => remove_status_condition(conditions, conditions::RESOURCE_CLAIMS_CREATED),
    }
}

/// Why the scheduler does not bind a pod, if it reports a reason.
fn unschedulable(observed: &Observed) -> Option<String> {
    let is_reported = observed.waiting_pods().any(|pod| pod.unschedulable_message().is_some());
    is_reported.then(|| waiting_pods::message(observed)).flatten()
}

fn scheduled_condition(observed: &Observed) -> ConditionState {
    let (found, needed) = (scheduled_count(observed), min_available(observed));
    let counts = format!("expected at least: {needed}, found: {found}");
    if found >= needed {
        (
            true.into(),
            pod_clique_scheduled::SUFFICIENT_SCHEDULED_PODS,
            format!("Sufficient scheduled pods found. {counts}"),
        )
    } else {
        (
            false.into(),
            pod_clique_scheduled::INSUFFICIENT_SCHEDULED_PODS,
            format!("Insufficient scheduled pods. {counts}"),
        )
    }
}

/// A starting pod counts like a ready pod; a pod that crashed or is no longer ready does not.
fn min_available_breached_condition(observed: &Observed, is_updating: bool) -> ConditionState {
    if is_updating {
        let message = "the pods are being updated".to_owned();
        return (ConditionStatus::Unknown, min_available_breached::UPDATE_IN_PROGRESS, message);
    }
    let (scheduled, needed) = (scheduled_count(observed), min_available(observed));
    if scheduled < needed {
        let message = format!("Scheduled replicas ({scheduled}) below MinAvailable ({needed})");
        return (true.into(), min_available_breached::SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE, message);
    }
    let is_healthy = |pod: &&SlimPod| pod.is_scheduled() && (pod.is_ready() || is_starting(pod));
    let found = as_count(observed.live().filter(is_healthy).count());
    let counts = format!("expected at least: {needed}, found: {found}");
    if found < needed {
        (
            true.into(),
            min_available_breached::INSUFFICIENT_READY_PODS,
            format!("Insufficient ready or starting pods. {counts}"),
        )
    } else {
        (
            false.into(),
            min_available_breached::SUFFICIENT_READY_PODS,
            format!("Either sufficient ready or starting pods found. {counts}"),
        )
    }
}

/// Whether every container either is ready or has not started yet, and none has been restarted.
fn is_starting(pod: &SlimPod) -> bool {
    let containers = &pod.status.container_statuses;
    containers.iter().all(|container| {
        let stuck = container.started == Some(true) && !container.ready;
        !stuck && container.restart_count == 0
    })
}

/// `rejection` is the reason and the message about failed writes.
fn available_condition(observed: &Observed, plan: &Plan, rejection: Option<&(&'static str, String)>) -> ConditionState {
    let ready = as_count(observed.live().filter(|pod| pod.is_ready()).count());
    let holds = ready >= observed.clique.spec.required_replicas();
    let parents = startup::waiting_pods(observed, &observed.startup);
    let (reason, detail) = match (rejection, plan.waiting.first()) {
        (Some((reason, rejection)), _) => (*reason, format!("; {rejection}")),
        (None, Some(waiting)) => (waiting.reason, format!("; {}", waiting.message)),
        (None, None) if observed.missing_domain_template.is_some() => {
            (available::COMPUTE_DOMAINS_PENDING, String::new())
        }
        (None, None) if parents.is_some() => (available::STARTUP_DEPENDENCIES_PENDING, String::new()),
        (None, None) => (available::MINIMUM_REPLICAS_UNAVAILABLE, String::new()),
    };
    let reason = if holds { available::MINIMUM_REPLICAS_AVAILABLE } else { reason };
    let mut message = format!("{}{detail}", pod_counts_message(observed, ready));
    for other in parents.into_iter().chain(waiting_pods::message(observed)) {
        message = format!("{message}; {other}");
    }
    (holds.into(), reason, message)
}

/// The number of ready pods, and the numbers of the others by state.
fn pod_counts_message(observed: &Observed, ready: i32) -> String {
    let desired = observed.clique.spec.replicas;
    let count = |holds: fn(&SlimPod) -> bool| as_count(observed.live().filter(|pod| holds(pod)).count());
    let others = [
        (desired - count(|_| true), "to be created"),
        (count(SlimPod::is_gated), "gated"),
        (as_count(observed.waiting_pods().count()), "not scheduled"),
        (count(|pod| pod.is_scheduled() && !pod.is_ready()), "not ready"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!(", {count} {state}"));
    format!("{ready} of {desired} pods ready{}", others.collect::<String>())
}

fn scheduled_count(observed: &Observed) -> i32 {
    as_count(observed.live().filter(|pod| pod.is_scheduled()).count())
}

fn min_available(observed: &Observed) -> i32 {
    observed.clique.spec.min_available.unwrap_or(observed.clique.spec.replicas)
}
