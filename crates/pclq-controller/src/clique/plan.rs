//! Plans the next writes for a clique: which claims and pods are created, changed and deleted.

use std::sync::Arc;
use std::time::Duration;

use grove_api_types::conditions::available;
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::{events, finalizers};
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::UnreadableObject;

use super::observed::Observed;
use crate::{claims, gangs, pod, stage, startup, update};

mod adoption;
mod annotations;
mod creates;
mod indices;
mod names;
mod replacement;

pub(crate) use annotations::message as message_of_annotations;
use creates::PodCreates;
use indices::Indices;

/// If no watch event triggers it, the next plan creates the other missing pods, or deletes those of a deleted clique, after this time.
const NEXT_PLAN_DELAY: Duration = Duration::from_secs(1);

/// The reasons of the events about deleted pods: of a success and of a failure.
const DELETED: (&str, &str) = (events::POD_DELETE_SUCCESSFUL, events::POD_DELETE_FAILED);

/// The plan for the pods of one clique, which is executed after that of its claims. Orphans are adopted first. Deletes come before
/// creates, so that the quota of a failed pod is free for its successor. Creates come last, so that rejected creates block nothing else.
/// A rejected write of one pod blocks no other write: the stages are independent.
pub(crate) fn pods(observed: &Observed) -> Plan {
    if observed.is_terminating() {
        let finalizer = Step::remove_finalizer(&observed.clique, finalizers::POD_CLIQUE);
        let plan = Plan::new().stage(Stage::new(stage::FINALIZERS, finalizer)).with_independent_stages();
        return if observed.orphans_pods {
            plan
        } else {
            plan.stage(delete_all(&observed.pods).with_event(DELETED.0, DELETED.1, "Deleted"))
        };
    }
    if observed.claims.is_too_large(observed) {
        return Plan::new().waiting([too_large(observed)]);
    }
    let identity = match observed.identity() {
        Ok(identity) => identity,
        Err(label) => return Plan::new().waiting([label_missing(label)]),
    };
    let indices = Indices::of(observed);
    let PodCreates { stage: creates, has_more } = creates::pods(observed, &identity, &indices.free);
    let (ungated, gated) = gangs::remove_scheduling_gates(observed, &observed.gang, &indices.retained);
    let is_omitted_for_namespace = observed.is_namespace_terminating && !indices.free.is_empty();
    // An orphan is adopted first, and deleted by a later plan.
    let to_delete = indices.to_delete.iter().copied().filter(|pod| observed.owns(pod));
    let to_replace = indices.to_replace.iter().filter(|pod| observed.owns(pod));
    let deletes = to_delete.chain(finished(observed, &indices)).map(Step::delete);
    let deletes = deletes.chain(to_replace.map(|pod| Step::delete_with_optimistic_lock(*pod)));
    let plan = Plan::new()
        .stage(stage::bounded(stage::ADOPTION, adoption::adoptions(observed)))
        .stage(with_event(stage::bounded(stage::PODS, deletes), observed, DELETED, "Deleted"))
        .stage(stage::bounded(stage::LABELS, adoption::restore_labels(observed, &identity, &indices.retained)))
        .stage(stage::bounded(stage::GATES, ungated))
        .stage(creates)
        .with_independent_stages()
        .waiting(is_omitted_for_namespace.then(Waiting::for_terminating_namespace))
        .waiting(observed.unreadable_annotations())
        .waiting(
            observed
                .gang
                .undecided_pods(&observed.clique)
                .filter(|(first, _)| indices.free.last() >= Some(first))
                .map(|(_, waiting)| waiting),
        )
        .waiting(startup::waiting(&observed.startup).filter(|_| !indices.free.is_empty()))
        .waiting(replacement::waiting(observed, &indices.free))
        .waiting(observed.unreadable_pods.first().map(|pod| unreadable_pod(pod)))
        .waiting(gated)
        .waiting(gangs::waiting_for_references(observed, &observed.gang, &identity, indices.retained.len()))
        .with_warnings(annotations::warning(observed));
    let replacement_delay = replacement::shortest_delay(observed, &indices.free);
    let plan = plan.continue_after(has_more.then_some(NEXT_PLAN_DELAY));
    let delays = replacement_delay.into_iter().chain(update::delay(observed));
    observed.backed_off.requeue(delays.fold(plan, Plan::requeue_after))
}

/// The two plans as one, for the status.
pub(crate) fn merged(claims: Plan, pods: Plan) -> Plan {
    let Plan { stages, waiting, warnings, requeue_after, continue_after, .. } = claims;
    let mut merged = requeue_after.into_iter().fold(pods, Plan::requeue_after);
    merged.stages.splice(0..0, stages);
    merged.warnings.splice(0..0, warnings);
    let others = merged.waiting.drain(..).filter(|other| !waiting.contains(other)).collect::<Vec<_>>();
    merged.waiting = [waiting, others].concat();
    merged.continue_after = [continue_after, merged.continue_after].into_iter().flatten().min();
    merged
}

/// Deletes the pods of a deleted clique, and then its claims: by then its pods are deleted or terminating. There is no object left to
/// publish events on. Do not call it if the deletion of the clique orphans them.
pub(crate) fn delete_children(pods: &[Arc<SlimPod>], claims: &[Arc<ResourceClaim>]) -> Plan {
    let pods = delete_all(pods);
    let has_more = pods.steps.len() == stage::MAX_STEPS;
    let claims = claims::delete_all(if has_more { &[] } else { claims });
    let has_more = has_more || claims.steps.len() == stage::MAX_STEPS;
    // No watch event triggers a reconcile of a deleted clique.
    Plan::new().stage(pods).stage(claims).continue_after(has_more.then_some(NEXT_PLAN_DELAY))
}

/// Always in the background: a pod has no dependents of Grove, and the foreground deletion of a clique awaits its pods in any case.
fn delete_all(pods: &[Arc<SlimPod>]) -> Stage {
    let active = pods.iter().filter(|pod| !pod.is_terminating());
    stage::bounded(stage::PODS, active.map(|pod| Step::delete_with_optimistic_lock(&**pod)))
}

/// The pods that failed, were evicted or succeeded. Nothing else deletes them, and their indices are free. A pod stays, with its
/// logs, until its replacement is due, unless it shares a claim.
fn finished<'a>(observed: &'a Observed, indices: &Indices<'_>) -> impl Iterator<Item = &'a SlimPod> {
    let is_finished = |pod: &&SlimPod| !pod.is_live() && !pod.is_terminating();
    let stays = move |pod: &SlimPod| {
        let is_delayed = |index| replacement::is_delayed(observed, &indices.free, index);
        !observed.claims.are_shared(observed.clique.spec.replicas) && pod::index(pod).is_some_and(is_delayed)
    };
    observed.pods.iter().map(AsRef::as_ref).filter(is_finished).filter(move |pod| !stays(pod))
}

/// While an update replaces pods, its progress is in the status, and only a failure causes an event.
fn with_event(
    stage: Stage,
    observed: &Observed,
    (success, failure): (&'static str, &'static str),
    verb: &'static str,
) -> Stage {
    if observed.clique.is_updating() {
        return stage.with_failure_event(failure);
    }
    stage.with_event(success, failure, verb)
}

/// The index of the pod is unknown, so a further pod could have the same index.
fn unreadable_pod(UnreadableObject { metadata, reason }: &UnreadableObject) -> Waiting {
    let name = metadata.name.as_deref().unwrap_or_default();
    let message =
        format!("no pods are created until Pod {name} is corrected or deleted: it could not be decoded: {reason}");
    Waiting::new(available::UNREADABLE_OBJECT, message)
}

fn label_missing(label: &str) -> Waiting {
    Waiting::new(available::LABEL_MISSING, format!("no pods are created until the PodClique has a valid label {label}"))
}

fn too_large(observed: &Observed) -> Waiting {
    let (replicas, objects) = (observed.clique.spec.replicas, observed.claims.objects(observed));
    let message = format!(
        "Grove creates and deletes no pods while spec.replicas is {replicas}: the PodClique would have {objects} pods and ResourceClaims, \
         and may have at most {MAX_OBJECTS}; lower spec.replicas"
    );
    Waiting::new(available::TOO_MANY_OBJECTS, message)
}
