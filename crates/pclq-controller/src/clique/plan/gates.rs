//! The scheduling gate of pods of a scaled gang: shut until the base gang is scheduled, then opened for good.

use grove_api_types::conditions::available;
use grove_api_types::labels::SCHEDULING_GATE;
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim::SlimPod;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::json;

use crate::clique::observed::Observed;

/// The patches that open the gates of `pods`, or why they stay shut.
pub(super) fn opened<'a>(seen: &'a Observed, pods: &'a [&SlimPod]) -> Result<Vec<Step>, Waiting> {
    let gated = || pods.iter().filter(|pod| seen.owns(pod)).filter_map(|pod| Some((*pod, gate(pod)?)));
    match seen.held_back() {
        Some(reason) => Err(Waiting::new(available::BASE_GANG_NOT_SCHEDULED, reason)),
        None => Ok(gated().map(|(pod, at)| Step::json_patch(pod, removal(at))).collect()),
    }
}

/// Where the pod's list of gates has Grove's.
fn gate(pod: &SlimPod) -> Option<usize> {
    pod.spec.scheduling_gates.iter().position(|gate| gate.name == SCHEDULING_GATE)
}

/// Removes the gate if it is still where it was seen; those of others stay.
fn removal(at: usize) -> Patch {
    let gate = PointerBuf::from_tokens(["spec", "schedulingGates", &at.to_string()]);
    let name = PointerBuf::from_tokens(["spec", "schedulingGates", &at.to_string(), "name"]);
    Patch(vec![
        PatchOperation::Test(TestOperation { path: name, value: json!(SCHEDULING_GATE) }),
        PatchOperation::Remove(RemoveOperation { path: gate }),
    ])
}
