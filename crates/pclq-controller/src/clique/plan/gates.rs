//! The scheduling gate of the pods of a scaled gang: it is removed once the base gang is scheduled.
//! [`Observed::gating_reason`] decides whether it is.

use grove_api_types::conditions::available;
use grove_api_types::labels::SCHEDULING_GATE;
use grove_controller::json_patch::{remove, test};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use json_patch::Patch;

use super::MAX_STEPS;
use crate::clique::observed::Observed;

/// The patches that remove the gate from `pods`, or why the gate stays.
pub(super) fn remove_scheduling_gates<'a>(observed: &'a Observed, pods: &'a [&SlimPod]) -> Result<Vec<Step>, Waiting> {
    let gated = || pods.iter().filter(|pod| observed.owns(pod)).filter_map(|pod| Some((*pod, gate_position(pod)?)));
    match observed.gating_reason() {
        Some(reason) => Err(Waiting::new(available::BASE_GANG_NOT_SCHEDULED, reason)),
        None => Ok(gated().take(MAX_STEPS).map(|(pod, at)| Step::json_patch(pod, removal(at))).collect()),
    }
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
