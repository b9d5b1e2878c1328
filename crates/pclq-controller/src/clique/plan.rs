//! Plans the next writes for a clique: which pods are created, changed and deleted, and the pod references in its gang.

use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::deletion::orphans_dependents;
use grove_api_types::events;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::UnreadableObject;
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
        return Plan::new().stage(with_delete_events(delete_all(&observed.clique, &observed.pods)));
    }
    let identity = match observed.identity() {
        Ok(identity) => identity,
        Err(label) => return Plan::new().waiting([label_missing(label)]),
    };
    let indices = Indices::of(observed);
    let named = indices.free.iter().map(|&index| (index, names::for_index(observed, index)));
    let missing = named.filter(|(_, name)| !is_pending(&observed.pending_creates, name.as_str()));
    let unreadable_pod = observed.unreadable_pods.first().map(|pod| unreadable_pod(pod));
    let max_creates = if unreadable_pod.is_none() { observed.backed_off.max_alike_creates() } else { 0 };
    let created =
        missing.take(max_creates).map(|(index, name)| Step::create(&desired::pod(observed, &identity, name, index)));
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
        .waiting(unreadable_pod)
        .waiting(gated)
        .waiting(gang_not_found);
    observed.backed_off.remove_from(plan)
}

/// Deletes the pods of a deleted clique, unless its deletion orphans them. There is no object left to publish events on.
pub(crate) fn delete_children(clique: &PodClique, pods: &[Arc<SlimPod>]) -> Plan {
    Plan::new().stage(delete_all(clique, pods))
}

fn delete_all(clique: &PodClique, pods: &[Arc<SlimPod>]) -> Stage {
    let pods = if orphans_dependents(clique) { &[] } else { pods };
    delete(pods.iter().map(AsRef::as_ref).filter(|pod| !pod.is_terminating()))
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
