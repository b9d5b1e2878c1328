//! Plans the next writes for a clique: which pods are created, changed and deleted, and the pod references in its gang.

use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_api_types::{events, finalizers};
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use super::{desired, stage};
use crate::write_history::is_pending;

mod adoption;
mod gates;
mod indices;
mod names;
mod references;

use indices::Indices;

/// The plan for one clique. Orphans are adopted first. Deletes come before creates, so that the quota of a failed pod is
/// free for its successor. Creates come last, so that rejected creates block nothing else.
pub(crate) fn plan(observed: &Observed, _now: Timestamp) -> Plan {
    if observed.is_terminating() {
        let finalizer = Step::remove_finalizer(&observed.clique, finalizers::POD_CLIQUE);
        let plan = Plan::new().stage(Stage::new(stage::FINALIZERS, finalizer));
        return if observed.orphans_pods { plan } else { plan.stage(with_delete_events(delete_all(&observed.pods))) };
    }
    if is_too_large(observed) {
        return Plan::new().waiting([too_large()]);
    }
    let identity = match observed.identity() {
        Ok(identity) => identity,
        Err(label) => return Plan::new().waiting([label_missing(label)]),
    };
    let indices = Indices::of(observed);
    let named = indices.free.iter().map(|&index| (index, names::for_index(observed, index)));
    let missing = named.filter(|(_, name)| !is_pending(&observed.pending_creates, name.as_str()));
    let created = missing
        .take(observed.backed_off.max_alike_creates())
        .map(|(index, name)| Step::create(&desired::pod(observed, &identity, name, index)));
    let (references, gang_not_found) = match references::update(observed, &identity, &indices.retained) {
        Ok(patch) => (patch, None),
        Err(waiting) => (None, Some(waiting)),
    };
    let (ungated, gated) = match gates::remove_scheduling_gates(observed, &indices.retained) {
        Ok(steps) => (steps, None),
        Err(waiting) => (Vec::new(), Some(waiting)),
    };
    // An orphan is adopted first, and deleted by a later plan.
    let to_delete = indices.to_delete.iter().copied().filter(|pod| observed.owns(pod));
    let plan = Plan::new()
        .stage(Stage::new(stage::ADOPTION, adoption::adoptions(observed)))
        .stage(with_delete_events(delete(to_delete.chain(finished(observed)))))
        .stage(Stage::new(stage::LABELS, adoption::restore_labels(observed, &identity, &indices.retained)))
        .stage(Stage::new(stage::REFERENCES, references))
        .stage(Stage::new(stage::GATES, ungated))
        .stage(Stage::new(stage::PODS, created).with_event(
            events::POD_CREATE_SUCCESSFUL,
            events::POD_CREATE_FAILED,
            "Created",
        ))
        .waiting(gated)
        .waiting(gang_not_found);
    observed.backed_off.remove_from(plan)
}

/// Deletes the pods of a deleted clique. There is no object left to publish events on. Do not call it if the deletion of the clique
/// orphans the pods.
pub(crate) fn delete_children(pods: &[Arc<SlimPod>]) -> Plan {
    Plan::new().stage(delete_all(pods))
}

/// Always in the background: a pod has no dependents of Grove, and the foreground deletion of a clique awaits its pods in any case.
fn delete_all(pods: &[Arc<SlimPod>]) -> Stage {
    let active = pods.iter().filter(|pod| !pod.is_terminating());
    Stage::new(stage::PODS, active.map(|pod| Step::delete_with_optimistic_lock(&**pod)))
}

/// The pods that failed, were evicted or succeeded. Nothing else deletes them, and their indices are free.
fn finished(observed: &Observed) -> impl Iterator<Item = &SlimPod> {
    observed.pods.iter().map(AsRef::as_ref).filter(|pod| !pod.is_live() && !pod.is_terminating())
}

fn delete<'a>(pods: impl Iterator<Item = &'a SlimPod>) -> Stage {
    Stage::new(stage::PODS, pods.map(Step::delete))
}

fn with_delete_events(stage: Stage) -> Stage {
    stage.with_event(events::POD_DELETE_SUCCESSFUL, events::POD_DELETE_FAILED, "Deleted")
}

/// Whether the clique and its pods exceed the limit of objects per set. Users can patch `replicas` of a clique without the validation
/// of its scale subresource. pcs-controller does not change such a set either.
fn is_too_large(observed: &Observed) -> bool {
    u64::try_from(observed.clique.spec.replicas).is_ok_and(|replicas| replicas >= MAX_OBJECTS)
}

fn too_large() -> Waiting {
    let message = format!(
        "the PodClique and its pods are more than {MAX_OBJECTS} objects; Grove creates and deletes no pods until it has fewer replicas"
    );
    Waiting::new(available::TOO_MANY_OBJECTS, message)
}

fn label_missing(label: &str) -> Waiting {
    Waiting::new(available::LABEL_MISSING, format!("no pods are created until the PodClique has a valid label {label}"))
}
