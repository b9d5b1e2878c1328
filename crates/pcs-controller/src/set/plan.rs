//! What to do next for a set: compare the children that are there with those that should be.

use grove_api_types::shape;
use grove_runtime::plan::{Plan, Stage};

use super::desired;
use super::observed::Observed;

mod deletion;
mod drift;
mod scale_in;

pub(crate) use deletion::of_children as deletion_of_children;

/// Reasons of events, as the wire format has them.
const GANGS_KEPT: &str = "PodGangCreateOrUpdateSuccessful";
const GANGS_REFUSED: &str = "PodGangCreateOrUpdateFailed";
const CLIQUES_KEPT: &str = "PodCliqueCreateOrUpdateSuccessful";
const CLIQUES_REFUSED: &str = "PodCliqueCreateOrUpdateFailed";

/// The plan for one set. Gangs come before their cliques, so that pods never wait for one to appear; what a smaller
/// set no longer has goes last.
pub fn plan(seen: &Observed) -> Plan {
    if seen.is_leaving() {
        return deletion::of_children(seen);
    }
    let replicas = shape::replicas(&seen.set);
    let (mut services, mut gangs, mut cliques) = (Vec::new(), Vec::new(), Vec::new());
    for replica in &replicas {
        services.extend(drift::service(&seen.services, &desired::headless_service(&seen.set, replica)));
        gangs.extend(drift::gang(&seen.gangs, desired::pod_gang(&seen.set, replica)));
        for clique in &replica.cliques {
            cliques.extend(drift::clique(&seen.cliques, desired::pod_clique(&seen.set, replica, clique)));
        }
    }
    Plan::new()
        .stage(Stage::new("services", services))
        .stage(Stage::new("gangs", gangs).announcing(GANGS_KEPT, GANGS_REFUSED, "Created or updated"))
        .stage(Stage::new("cliques", cliques).announcing(CLIQUES_KEPT, CLIQUES_REFUSED, "Created or updated"))
        .stage(scale_in::stage(seen, &replicas))
}
