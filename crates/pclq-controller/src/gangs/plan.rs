//! The scheduling gate of pods, which is removed once the gang that they wait for is scheduled, and why pods of the clique have no references in
//! its gang. Core pods of a gang with a `PodGroup` wait for no gang, also if they were created as surplus pods.

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::SCHEDULING_GATE;
use grove_controller::json_patch::{remove, test};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use json_patch::Patch;

use super::observed::ObservedGang;
use crate::observed::{CliqueIdentity, ObservedClique};
use crate::pod;
use crate::stage::MAX_STEPS;

/// The patches that remove the gate from `pods`, and why the gate of others stays.
pub(crate) fn remove_scheduling_gates(
    clique: &ObservedClique,
    gang: &ObservedGang,
    pods: &[&SlimPod],
) -> (Vec<Step>, Option<Waiting>) {
    let gating = gang.gating();
    let is_open = |pod: &SlimPod| pod::index(pod).is_some_and(|index| !gating.is_gated(index));
    let gated = pods.iter().filter(|pod| clique.owns(pod)).filter_map(|pod| Some((*pod, gate_position(pod)?)));
    let open = gated.filter(|(pod, _)| is_open(pod)).take(MAX_STEPS);
    (open.map(|(pod, at)| Step::json_patch(pod, removal(at))).collect(), gang.gating_reason(&clique.clique))
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

/// Why references to some of the retained pods are missing.
pub(crate) fn waiting_for_references(
    clique: &ObservedClique,
    gang: &ObservedGang,
    identity: &CliqueIdentity,
    retained: usize,
) -> Option<Waiting> {
    let ObservedGang { object, max_references, .. } = gang;
    let Some(gang) = object.as_deref().filter(|gang| !is_terminating(*gang)) else {
        return Some(gang_not_found(identity));
    };
    let name = clique.name();
    let Some(group) = gang.spec.podgroups.iter().find(|group| group.name == name.as_str()) else {
        return Some(group_not_found(identity, name.as_str()));
    };
    let omitted = retained.saturating_sub(group.pod_references.len());
    max_references.filter(|_| omitted > 0).map(|max_references| too_many(identity, max_references, omitted))
}

fn gang_not_found(identity: &CliqueIdentity) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {} does not exist", identity.gang))
}

fn group_not_found(identity: &CliqueIdentity, clique: &str) -> Waiting {
    Waiting::new(available::POD_GROUP_NOT_FOUND, format!("PodGang {} has no podgroup {clique}", identity.gang))
}

fn too_many(identity: &CliqueIdentity, max_references: usize, omitted: usize) -> Waiting {
    let message = format!(
        "PodGang {} can have at most {max_references} pod references; {omitted} pods of the clique have no reference",
        identity.gang
    );
    Waiting::new(available::TOO_MANY_POD_REFERENCES, message)
}
