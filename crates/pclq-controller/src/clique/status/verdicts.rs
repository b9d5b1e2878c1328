//! The conditions of a clique.

use grove_api_types::conditions::{self, available, min_available_breached, pod_clique_scheduled};
use grove_controller::conditions::{ConditionUpdate, set_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::slim::SlimPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::{as_count, refusals};
use crate::clique::observed::Observed;

/// Whether a condition holds, its reason and its message.
type Judged = (bool, &'static str, String);

pub(super) fn set(
    conditions: &mut Vec<Condition>,
    seen: &Observed,
    plan: &Plan,
    done: &ExecutionResult,
    now: Timestamp,
) {
    let judged = [
        (conditions::POD_CLIQUE_SCHEDULED, enough_scheduled(seen)),
        (conditions::MIN_AVAILABLE_BREACHED, breach(seen)),
        (conditions::AVAILABLE, availability(seen, plan, done)),
    ];
    for (type_, (holds, reason, message)) in judged {
        let (status, reason) = (holds.into(), reason.to_owned());
        let observed_generation = seen.clique.metadata.generation;
        set_status_condition(conditions, ConditionUpdate { type_, status, reason, message, observed_generation }, now);
    }
}

fn enough_scheduled(seen: &Observed) -> Judged {
    let (found, needed) = (bound(seen), min_available(seen));
    let counts = format!("expected at least: {needed}, found: {found}");
    if found >= needed {
        (true, pod_clique_scheduled::SUFFICIENT_SCHEDULED_PODS, format!("Sufficient scheduled pods found. {counts}"))
    } else {
        (false, pod_clique_scheduled::INSUFFICIENT_SCHEDULED_PODS, format!("Insufficient scheduled pods. {counts}"))
    }
}

/// A pod that is still starting does not breach, one that crashed or lost its readiness does.
fn breach(seen: &Observed) -> Judged {
    let (bound, needed) = (bound(seen), min_available(seen));
    if bound < needed {
        let message = format!("Scheduled replicas ({bound}) below MinAvailable ({needed})");
        return (true, min_available_breached::SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE, message);
    }
    let well = |pod: &&SlimPod| pod.is_scheduled() && (pod.is_ready() || is_starting(pod));
    let found = as_count(seen.live().filter(well).count());
    let counts = format!("expected at least: {needed}, found: {found}");
    if found < needed {
        (
            true,
            min_available_breached::INSUFFICIENT_READY_PODS,
            format!("Insufficient ready or starting pods. {counts}"),
        )
    } else {
        (
            false,
            min_available_breached::SUFFICIENT_READY_PODS,
            format!("Either sufficient ready or starting pods found. {counts}"),
        )
    }
}

/// Whether no container has come so far that it could have become ready, and none has had to be started again.
fn is_starting(pod: &SlimPod) -> bool {
    let containers = &pod.status.container_statuses;
    containers.iter().all(|container| {
        let stuck = container.started == Some(true) && !container.ready;
        !stuck && container.restart_count == 0
    })
}

fn availability(seen: &Observed, plan: &Plan, done: &ExecutionResult) -> Judged {
    let ready = as_count(seen.live().filter(|pod| pod.is_ready()).count());
    let holds = ready >= seen.clique.spec.needed();
    let rejected_verb = done.rejections().next().map(|(outcome, _)| outcome.verb);
    let (reason, why) = match (rejected_verb.zip(refusals::told(done)), plan.waiting.first()) {
        (Some((verb, rejection)), _) => (available::failed(verb), format!("; {rejection}")),
        (None, Some(waiting)) => (waiting.reason, format!("; {}", waiting.message)),
        (None, None) => (available::MINIMUM_REPLICAS_UNAVAILABLE, String::new()),
    };
    let reason = if holds { available::MINIMUM_REPLICAS_AVAILABLE } else { reason };
    (holds, reason, format!("{}{why}", tally(seen, ready)))
}

/// How many pods are ready, and what the others lack.
fn tally(seen: &Observed, ready: i32) -> String {
    let wanted = seen.clique.spec.replicas;
    let of = |holds: fn(&SlimPod) -> bool| as_count(seen.live().filter(|pod| holds(pod)).count());
    let lacks = [
        (wanted - of(|_| true), "to be created"),
        (of(SlimPod::is_gated), "gated"),
        (of(|pod| !pod.is_scheduled() && !pod.is_gated()), "not scheduled"),
        (of(|pod| pod.is_scheduled() && !pod.is_ready()), "not ready"),
    ];
    let lacks = lacks.iter().filter(|(count, _)| *count > 0).map(|(count, lack)| format!(", {count} {lack}"));
    format!("{ready} of {wanted} pods ready{}", lacks.collect::<String>())
}

fn bound(seen: &Observed) -> i32 {
    as_count(seen.live().filter(|pod| pod.is_scheduled()).count())
}

fn min_available(seen: &Observed) -> i32 {
    seen.clique.spec.min_available.unwrap_or(seen.clique.spec.replicas)
}
