//! What to do next for a set: compare the children that are there with those that should be.

use std::collections::BTreeMap;

use grove_api_types::deletion::orphans_dependents;
use grove_api_types::expansion::{self, SetReplica};
use grove_api_types::labels;
use grove_runtime::plan::{Plan, Stage, Step};

use super::desired;
use super::observed::Observed;
use crate::children::Revision;
use crate::children::{deletion, drift, service, too_large};

mod scale_in;

/// Reasons of events, as the wire format has them, which has none for Services and autoscalers.
const SERVICES_REFUSED: &str = "ServiceCreateOrUpdateFailed";
const AUTOSCALERS_REFUSED: &str = "HorizontalPodAutoscalerCreateOrUpdateFailed";
const GANGS_KEPT: &str = "PodGangCreateOrUpdateSuccessful";
const GANGS_REFUSED: &str = "PodGangCreateOrUpdateFailed";
const GANGS_GONE: &str = "PodGangDeleteSuccessful";
const GANGS_STAYED: &str = "PodGangDeleteFailed";
const GROUPS_GONE: &str = "PodCliqueScalingGroupDeleteSuccessful";
const GROUPS_STAYED: &str = "PodCliqueScalingGroupDeleteFailed";
const CLIQUES_GONE: &str = "PodCliqueDeleteSuccessful";
const CLIQUES_STAYED: &str = "PodCliqueDeleteFailed";
const GROUPS_KEPT: &str = "PodCliqueScalingGroupCreateSuccessful";
const GROUPS_REFUSED: &str = "PodCliqueScalingGroupCreateOrUpdateFailed";
const CLIQUES_KEPT: &str = "PodCliqueCreateOrUpdateSuccessful";
const CLIQUES_REFUSED: &str = "PodCliqueCreateOrUpdateFailed";

/// Announces the deletes of a stage by the kind of what goes.
fn farewell(stage: Stage) -> Stage {
    stage
        .announcing_kind("PodCliqueScalingGroup", GROUPS_GONE, GROUPS_STAYED, "Deleted")
        .announcing_kind("PodClique", CLIQUES_GONE, CLIQUES_STAYED, "Deleted")
        .announcing_kind("PodGang", GANGS_GONE, GANGS_STAYED, "Deleted")
}

/// The plan for one set. Gangs come before their cliques, so that pods never wait for one to appear, and cliques and groups
/// before what scales them; what a smaller set no longer has goes last.
pub fn plan(seen: &Observed) -> Plan {
    if seen.is_leaving() {
        return deletion_of_children(seen);
    }
    if seen.is_too_large() {
        return Plan::new().waiting([too_large()]);
    }
    let replicas = expansion::expand(&seen.set, &seen.live());
    let Kept { services, gangs, groups, cliques, autoscalers } = kept(seen, &replicas);
    let plan = Plan::new()
        .stage(Stage::new("services", services).announcing_refusals(SERVICES_REFUSED))
        .stage(Stage::new("gangs", gangs).announcing(GANGS_KEPT, GANGS_REFUSED, "Created or updated"))
        .stage(Stage::new("groups", groups).announcing(GROUPS_KEPT, GROUPS_REFUSED, "Created or updated"))
        .stage(Stage::new("cliques", cliques).announcing(CLIQUES_KEPT, CLIQUES_REFUSED, "Created or updated"))
        .stage(Stage::new("autoscalers", autoscalers).announcing_refusals(AUTOSCALERS_REFUSED))
        .stage(scale_in::stage(seen, &replicas));
    // What a replica lacks because the name is somebody else's, or because it was refused, holds up what comes later in that
    // replica, and no other.
    let plan = if plan.is_still() { plan } else { plan.in_parts(places(&replicas)) };
    seen.refused.left_out_of(seen.claims(&labels::base(&seen.name())).settle(plan))
}

/// The replica of each child. Children of two kinds may share a name, and then they share the replica.
fn places(replicas: &[SetReplica<'_>]) -> BTreeMap<String, i32> {
    let of_replica = |replica: &SetReplica<'_>| {
        let groups = replica.groups.iter().map(|group| group.name.to_string());
        let cliques = replica.cliques.iter().map(|clique| clique.name.to_string());
        let gangs = replica.gangs().into_iter().map(|gang| gang.name.to_string());
        let names = groups.chain(cliques).chain(gangs.collect::<Vec<_>>()).chain([replica.service.to_string()]);
        names.map(|name| (name, replica.index)).collect::<Vec<_>>()
    };
    replicas.iter().flat_map(of_replica).collect()
}

/// What makes the children what they should be, by kind.
#[derive(Default)]
struct Kept {
    services: Vec<Step>,
    gangs: Vec<Step>,
    groups: Vec<Step>,
    cliques: Vec<Step>,
    autoscalers: Vec<Step>,
}

fn kept(seen: &Observed, replicas: &[SetReplica<'_>]) -> Kept {
    let set = &seen.set;
    let revision = Revision::of(&set.spec.template);
    let mut kept = Kept::default();
    for replica in replicas {
        kept.services.extend(service::drift(&seen.services, desired::headless_service(set, replica)));
        for gang in &replica.gangs() {
            kept.gangs.extend(drift::gang(&seen.gangs, desired::pod_gang(set, gang, seen.default_scheduler)));
        }
        for group in &replica.groups {
            kept.groups.extend(drift::group(&seen.groups, desired::scaling_group(set, replica.index, group)));
        }
        for clique in &replica.cliques {
            let desired = desired::pod_clique(set, &revision, replica, clique);
            kept.cliques.extend(drift::clique(&seen.cliques, desired));
        }
        for autoscaler in &replica.autoscalers() {
            kept.autoscalers.extend(drift::autoscaler(&seen.autoscalers, desired::autoscaler(set, autoscaler)));
        }
    }
    kept
}

/// Deletes the children of a set that is going or gone, unless it was to leave them.
pub(crate) fn deletion_of_children(seen: &Observed) -> Plan {
    if orphans_dependents(&seen.set) {
        return Plan::new();
    }
    let steps = deletion::all(&seen.autoscalers)
        .chain(deletion::all(&seen.groups))
        .chain(deletion::all(&seen.cliques))
        .chain(deletion::all(&seen.gangs))
        .chain(deletion::all(&seen.services));
    Plan::new().stage(farewell(Stage::new("children", steps)))
}
