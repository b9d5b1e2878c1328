//! What to do next for a clique: which pods go, which come, and whether its gang must hear of it.

use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::deletion::orphans_dependents;
use grove_api_types::events;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use grove_controller::slim::SlimPod;

use super::desired;
use super::observed::Observed;

mod gates;
mod identity;
mod indices;
mod names;
mod references;

use indices::Indices;

/// Names of the plan's stages.
pub mod stage {
    /// Making pods that lost their owner the clique's own.
    pub const ADOPTION: &str = "adoption";
    /// Giving pods the labels back by which they are found.
    pub const LABELS: &str = "labels";
    /// Opening the scheduling gates of pods.
    pub const GATES: &str = "gates";
    /// Creating and deleting pods.
    pub const PODS: &str = "pods";
    /// Telling the gang which pods there are.
    pub const REFERENCES: &str = "references";
}

/// The plan for one clique. Pods that are its own but do not say so come first. What must go goes before what comes, so that a
/// failed pod's quota is free for its successor; creates come last, so that a cluster that refuses them keeps nothing
/// else from being done.
pub fn plan(seen: &Observed) -> Plan {
    if seen.is_leaving() {
        return Plan::new().stage(announced(deletion(&seen.clique, &seen.pods)));
    }
    let lineage = match seen.lineage() {
        Ok(lineage) => lineage,
        Err(label) => return Plan::new().waiting([label_missing(label)]),
    };
    let indices = Indices::of(seen);
    // Who was refused asks for one pod until one is let in: all of a clique's pods are alike.
    let asked = if seen.is_starved { 1 } else { usize::MAX };
    // What was created and not seen yet is on its way.
    let is_coming = |index: &i32| seen.remembered.asked.get(index).is_some_and(|asked| asked.uid.is_some());
    let lacking = indices.free.iter().filter(|index| !is_coming(index));
    let created = lacking.take(asked).map(|&index| {
        let name = names::for_index(seen, index);
        Step::create(&desired::pod(seen, &lineage, name, index))
    });
    let references = references::update(seen, &lineage, &indices.kept);
    let (patch, waiting) = match references {
        Ok(patch) => (patch, None),
        Err(waiting) => (None, Some(waiting)),
    };
    let (opened, held_back) = match gates::opened(seen, &indices.kept) {
        Ok(steps) => (steps, None),
        Err(waiting) => (Vec::new(), Some(waiting)),
    };
    // A pod that is not the clique's own yet is deleted, if it must be, once it is.
    let surplus = indices.surplus.iter().copied().filter(|pod| seen.owns(pod));
    Plan::new()
        .stage(Stage::new(stage::ADOPTION, identity::adoptions(seen)))
        .stage(announced(deleted(surplus.chain(ended(seen)))))
        .stage(Stage::new(stage::LABELS, identity::lost_labels(seen, &lineage, &indices.kept)))
        .stage(Stage::new(stage::REFERENCES, patch))
        .stage(Stage::new(stage::GATES, opened))
        .stage(Stage::new(stage::PODS, created).with_event(
            events::POD_CREATE_SUCCESSFUL,
            events::POD_CREATE_FAILED,
            "Created",
        ))
        .waiting(held_back)
        .waiting(waiting)
}

/// Deletes the pods of a clique that is gone, unless it was to leave them. Silently: nobody looks at its events any more.
pub fn farewell(clique: &PodClique, pods: &[Arc<SlimPod>]) -> Plan {
    Plan::new().stage(deletion(clique, pods))
}

fn deletion(clique: &PodClique, pods: &[Arc<SlimPod>]) -> Stage {
    let pods = if orphans_dependents(clique) { &[] } else { pods };
    deleted(pods.iter().map(AsRef::as_ref).filter(|pod| !pod.is_terminating()))
}

/// Pods that failed, were evicted or succeeded: nothing removes them but us, and their indices are free.
fn ended(seen: &Observed) -> impl Iterator<Item = &SlimPod> {
    seen.pods.iter().map(AsRef::as_ref).filter(|pod| !pod.is_live() && !pod.is_terminating())
}

fn deleted<'a>(pods: impl Iterator<Item = &'a SlimPod>) -> Stage {
    Stage::new(stage::PODS, pods.map(Step::delete))
}

fn announced(deletes: Stage) -> Stage {
    deletes.with_event(events::POD_DELETE_SUCCESSFUL, events::POD_DELETE_FAILED, "Deleted")
}

fn label_missing(label: &str) -> Waiting {
    Waiting::new(available::LABEL_MISSING, format!("no pods are made until the PodClique has a valid label {label}"))
}
