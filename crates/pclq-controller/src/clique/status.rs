//! The status of a clique: pod counts, conditions and errors. When it is written: `grove-controller/src/status_limiter.rs`.

use grove_api_types::conditions::{AVAILABLE, MIN_AVAILABLE_BREACHED, POD_CLIQUE_SCHEDULED, UPDATE_IN_PROGRESS};
use grove_api_types::error_codes::ERR_UNREADABLE_ANNOTATION;
use grove_api_types::labels::{self, Component};
use grove_api_types::v1alpha1::{LastError, PodClique, PodCliqueStatus, PodCliqueUpdateProgress};
use grove_controller::conditions::{find_status_condition, is_status_condition_true};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::resource_claims::template_errors;
use grove_controller::slim_pod::SlimPod;
use grove_controller::status_limiter::StatusChange;
use grove_controller::status_writer::as_count;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observed::Observed;
use super::plan::message_of_annotations;
use crate::claims;
use crate::update::{self, PodCounts};

mod conditions;
mod waiting_pods;

/// The status of the clique after its plan was executed.
pub(crate) fn status(observed: &Observed, plan: &Plan, result: &ExecutionResult, now: Timestamp) -> PodCliqueStatus {
    let old = observed.clique.status.clone().unwrap_or_default();
    let hash = observed.clique.labels().get(labels::TEMPLATE_HASH);
    let count = |holds: &dyn Fn(&SlimPod) -> bool| as_count(observed.live().filter(|pod| holds(pod)).count());
    let updated = count(&|pod| pod.labels().get(labels::TEMPLATE_HASH) == hash);
    let replicas = count(&|_| true);
    let ready = count(&SlimPod::is_ready);
    let outdated = as_count(update::count_outdated(observed));
    let available = as_count(update::count_available(observed));
    let counts = PodCounts { live: replicas, outdated, available };
    let update_progress = update::progress(observed, counts, now);
    let is_updating = update_progress.as_ref().is_some_and(PodCliqueUpdateProgress::is_in_progress);
    let (generation_hash, template_hash) = if updated == replicas && !is_updating {
        (observed.clique.annotations().get(labels::GENERATION_HASH).cloned(), hash.cloned())
    } else {
        (old.current_pod_clique_set_generation_hash, old.current_pod_template_hash)
    };
    let backed_off = observed.all_backed_off();
    let errors = backed_off.last_errors::<PodClique>(result).chain(template_errors::<PodClique>(plan));
    let unreadable = message_of_annotations(plan.waiting.iter());
    let errors = errors.chain(unreadable.map(|message| (ERR_UNREADABLE_ANNOTATION.to_owned(), message)));
    let is_complete = result.succeeded() && backed_off.children.is_empty();
    let mut conditions = old.conditions;
    conditions::set_all(&mut conditions, observed, (plan, result), update_progress.as_ref(), now);
    let scheduled = find_status_condition(&conditions, POD_CLIQUE_SCHEDULED).filter(|it| it.status == "True");
    let last_scheduled = scheduled.map(|condition| condition.last_transition_time.clone()).or(old.last_scheduled);
    PodCliqueStatus {
        observed_generation: if is_complete { observed.clique.metadata.generation } else { old.observed_generation },
        last_errors: LastError::update(&old.last_errors, errors, &Time(now)),
        replicas: Some(replicas),
        ready_replicas: ready,
        updated_replicas: updated,
        schedule_gated_replicas: count(&SlimPod::is_gated),
        scheduled_replicas: count(&SlimPod::is_scheduled),
        last_scheduled,
        hpa_pod_selector: pod_selector(observed),
        conditions,
        current_pod_clique_set_generation_hash: generation_hash,
        current_pod_template_hash: template_hash,
        update_progress,
    }
}

/// A change is significant if, outside of an update, the clique becomes or stops being available or is no longer scheduled, and if it becomes
/// complete, gets into breach of `minAvailable`, has other errors, begins or ends an update, has another reason in its condition `UpdateInProgress`, or cannot use claims for another reason. If its gang gates cliques, a change is also
/// significant if the clique becomes or stops being scheduled as [`gating_reason`](crate::gangs::ObservedGang::gating_reason) of those cliques requires it: the status
/// opens or closes their gates. The condition `PodCliqueScheduled` differs from that if the clique has fewer replicas than
/// `minAvailable`.
pub(crate) fn status_change(observed: &Observed, new: &PodCliqueStatus) -> StatusChange {
    let old = observed.clique.status.as_ref();
    let holds = |type_: &str| {
        let holds_in = |status: &PodCliqueStatus| is_status_condition_true(&status.conditions, type_);
        (old.is_some_and(holds_in), holds_in(new))
    };
    let (was_available, is_available) = holds(AVAILABLE);
    // An update that replaces one pod after the other changes both twice for each pod. Who waits for the update waits for its end.
    let is_updating = new.is_updating();
    let (was_scheduled, is_scheduled) = holds(POD_CLIQUE_SCHEDULED);
    let (was_breached, is_breached) = holds(MIN_AVAILABLE_BREACHED);
    let desired = observed.clique.spec.replicas;
    let required_by_gates = observed.clique.spec.required_replicas().max(0);
    let is_complete = new.replicas == Some(desired) && new.ready_replicas == desired && new.updated_replicas == desired;
    let opens_gates =
        |status: Option<&PodCliqueStatus>| status.map_or(0, |status| status.scheduled_replicas) >= required_by_gates;
    let changes_gates = observed.gang.gates_cliques && opens_gates(old) != opens_gates(Some(new));
    let old_errors = old.map(|old| old.last_errors.as_slice()).unwrap_or_default();
    let phase = |status: &PodCliqueStatus| {
        let progress = status.update_progress.as_ref()?;
        let condition = find_status_condition(&status.conditions, UPDATE_IN_PROGRESS);
        let reason = condition.map(|condition| condition.reason.clone());
        let target = (progress.pod_clique_set_generation_hash.clone(), progress.pod_template_hash.clone());
        Some((target, progress.update_ended_at.is_some(), reason))
    };
    let is_significant = is_complete
        || old.is_some_and(|old| phase(old) != phase(new))
        || old.and_then(claims::reason_of_missing) != claims::reason_of_missing(new)
        || (!is_updating && (was_available != is_available || (was_scheduled && !is_scheduled)))
        || (old.is_some() && !was_breached && is_breached)
        || changes_gates
        || old_errors != new.last_errors;
    if is_significant { StatusChange::Significant } else { StatusChange::Minor }
}

/// The selector of the pods, for autoscalers. A clique of a scaling group has none, because it is scaled with its group.
fn pod_selector(observed: &Observed) -> Option<String> {
    let component = observed.clique.labels().get(labels::COMPONENT).map(String::as_str);
    let identity = observed.identity().ok().filter(|_| component == Some(Component::SetPodClique.value()))?;
    let mut selected = labels::base(&identity.set);
    selected.extend(labels::of([(labels::POD_CLIQUE, observed.name().as_str())]));
    Some(labels::selector(&selected))
}
