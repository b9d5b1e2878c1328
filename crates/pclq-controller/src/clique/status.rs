//! What a clique says of itself: how many of its pods are there, bound, ready, and why not all of them are.

use grove_api_types::labels::{self, Component};
use grove_api_types::v1alpha1::{LastError, PodClique, PodCliqueStatus};
use grove_api_types::{conditions, error_codes};
use grove_controller::conditions::is_status_condition_true;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::Plan;
use grove_controller::slim::SlimPod;
use grove_controller::status_throttle::StatusChange;
use grove_runtime::api_error::ApiError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::observed::Observed;

mod refusals;
mod verdicts;

/// The status of the clique after `done`.
pub fn status(seen: &Observed, plan: &Plan, done: &ExecutionResult, now: Timestamp) -> PodCliqueStatus {
    let old = seen.clique.status.clone().unwrap_or_default();
    let hash = seen.clique.labels().get(labels::TEMPLATE_HASH);
    let count = |holds: &dyn Fn(&SlimPod) -> bool| as_count(seen.live().filter(|pod| holds(pod)).count());
    let updated = count(&|pod| pod.labels().get(labels::TEMPLATE_HASH) == hash);
    let replicas = count(&|_| true);
    let (generation_hash, template_hash) = if updated == replicas {
        (seen.clique.annotations().get(labels::GENERATION_HASH).cloned(), hash.cloned())
    } else {
        (old.current_pod_clique_set_generation_hash, old.current_pod_template_hash)
    };
    let failures = done.rejections().map(|(outcome, failure)| error(outcome, failure));
    let mut conditions = old.conditions;
    verdicts::set(&mut conditions, seen, plan, done, now);
    PodCliqueStatus {
        observed_generation: if done.succeeded() { seen.clique.metadata.generation } else { old.observed_generation },
        last_errors: LastError::after(&old.last_errors, failures, &Time(now)),
        replicas: Some(replicas),
        ready_replicas: count(&SlimPod::is_ready),
        updated_replicas: updated,
        schedule_gated_replicas: count(&SlimPod::is_gated),
        scheduled_replicas: count(&SlimPod::is_scheduled),
        hpa_pod_selector: pod_selector(seen),
        conditions,
        current_pod_clique_set_generation_hash: generation_hash,
        current_pod_template_hash: template_hash,
        update_progress: old.update_progress,
    }
}

/// That a clique serves or no longer does, has all it was asked to have, lost what it had, or was refused something, is
/// news; so is what others wait for.
pub fn tidings(seen: &Observed, old: Option<&PodCliqueStatus>, new: &PodCliqueStatus) -> StatusChange {
    let holds = |type_: &str| {
        let of = |status: &PodCliqueStatus| is_status_condition_true(&status.conditions, type_);
        (old.is_some_and(of), of(new))
    };
    let (was_serving, serves) = holds(conditions::AVAILABLE);
    let (was_scheduled, is_scheduled) = holds(conditions::POD_CLIQUE_SCHEDULED);
    let (was_breached, is_breached) = holds(conditions::MIN_AVAILABLE_BREACHED);
    let wanted = seen.clique.spec.replicas;
    let is_complete = new.replicas == Some(wanted) && new.ready_replicas == wanted && new.updated_replicas == wanted;
    let errors = old.map(|old| old.last_errors.as_slice()).unwrap_or_default();
    // Nothing new is not worth waiting for; it is not written either.
    let is_news = is_complete
        || old == Some(new)
        || was_serving != serves
        || (was_scheduled && !is_scheduled)
        || (old.is_some() && !was_breached && is_breached)
        || (seen.is_awaited && was_scheduled != is_scheduled)
        || errors != new.last_errors;
    if is_news { StatusChange::Significant } else { StatusChange::Progress }
}

/// A refusal as users and their tools read it.
fn error(StepResult { stage: _, verb, target, result: _ }: &StepResult, failure: &ApiError) -> (String, String) {
    let code = error_codes::of_write(&PodClique::kind(&()), &target.resource.kind, verb);
    (code.to_owned(), format!("could not {verb} {target}: {failure}"))
}

/// The selector of the pods, for autoscalers. A clique of a scaling group has none: it is scaled with its group.
fn pod_selector(seen: &Observed) -> Option<String> {
    let standalone = seen.clique.labels().get(labels::COMPONENT).map(String::as_str);
    let lineage = seen.lineage().ok().filter(|_| standalone == Some(Component::SetPodClique.value()))?;
    let mut selected = labels::base(&lineage.set);
    selected.extend(labels::of([(labels::POD_CLIQUE, seen.name().as_str())]));
    Some(labels::selector(&selected))
}

fn as_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
