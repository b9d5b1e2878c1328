//! The scheduling gate of pods: it is removed once the gang that they wait for is scheduled. [`Observed::gating_reason`] decides whether it
//! is. Core pods of a gang with a `PodGroup` wait for no gang, also if they were created as surplus pods.

use grove_api_types::labels::SCHEDULING_GATE;
use grove_controller::json_patch::{remove, test};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use json_patch::Patch;

use crate::clique::observed::Observed;
use crate::pod;
use crate::stage::MAX_STEPS;

/// The patches that remove the gate from `pods`, and why the gate of others stays.
pub(super) fn remove_scheduling_gates(observed: &Observed, pods: &[&SlimPod]) -> (Vec<Step>, Option<Waiting>) {
    let gating = observed.gating();
    let is_open = |pod: &SlimPod| pod::index(pod).is_some_and(|index| !gating.is_gated(index));
    let gated = pods.iter().filter(|pod| observed.owns(pod)).filter_map(|pod| Some((*pod, gate_position(pod)?)));
    let open = gated.filter(|(pod, _)| is_open(pod)).take(MAX_STEPS);
    (open.map(|(pod, at)| Step::json_patch(pod, removal(at))).collect(), observed.gating_reason())
}

/// The position of Grove's gate in the pod's list of gates.
fn gate_position(pod: &SlimPod) -> Option<usize> {
    pod.spec.scheduling_gates.iter().position(|gate| gate.name == SCHEDULING_GATE)
}

/// Removes the gate if it is still at the observed position. The gates of others stay.
fn removal(at: usize) -> Patch {
    let at = at.to_string();
    let name = test(&["spec", "schedulingGates", &at, "name"], SCHEDULING_GATE);
    Patch(vec![name, remove(&["spec", "schedulingGates", &at])])
}
