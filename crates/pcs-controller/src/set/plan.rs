//! What to do next for a set: compare the children that are there with those that should be.

use grove_api_types::ownership::leaves_children;
use grove_api_types::shape;
use grove_runtime::plan::{Plan, Stage};

use super::desired;
use super::observed::Observed;
use crate::children::desired::Revision;
use crate::children::{deletion, drift};

mod scale_in;

/// Reasons of events, as the wire format has them.
const GANGS_KEPT: &str = "PodGangCreateOrUpdateSuccessful";
const GANGS_REFUSED: &str = "PodGangCreateOrUpdateFailed";
const CLIQUES_KEPT: &str = "PodCliqueCreateOrUpdateSuccessful";
const CLIQUES_REFUSED: &str = "PodCliqueCreateOrUpdateFailed";

/// The plan for one set. Gangs come before their cliques, so that pods never wait for one to appear; what a smaller
/// set no longer has goes last.
pub fn plan(seen: &Observed) -> Plan {
    if seen.is_leaving() {
        return deletion_of_children(seen);
    }
    let revision = Revision::of(&seen.set.spec.template);
    let replicas = shape::replicas(&seen.set);
    let (mut services, mut gangs, mut cliques) = (Vec::new(), Vec::new(), Vec::new());
    for replica in &replicas {
        services.extend(drift::service(&seen.services, &desired::headless_service(&seen.set, replica)));
        gangs.extend(drift::gang(&seen.gangs, desired::pod_gang(&seen.set, replica)));
        for clique in &replica.cliques {
            cliques.extend(drift::clique(&seen.cliques, desired::pod_clique(&seen.set, &revision, replica, clique)));
        }
    }
    Plan::new()
        .stage(Stage::new("services", services))
        .stage(Stage::new("gangs", gangs).announcing(GANGS_KEPT, GANGS_REFUSED, "Created or updated"))
        .stage(Stage::new("cliques", cliques).announcing(CLIQUES_KEPT, CLIQUES_REFUSED, "Created or updated"))
        .stage(scale_in::stage(seen, &replicas))
}

/// Deletes the children of a set that is going or gone, unless it was to leave them.
pub(crate) fn deletion_of_children(seen: &Observed) -> Plan {
    if leaves_children(&seen.set) {
        return Plan::new();
    }
    let steps = deletion::all(&seen.cliques).chain(deletion::all(&seen.gangs)).chain(deletion::all(&seen.services));
    Plan::new().stage(Stage::new("children", steps))
}
