//! What to do next for a scaling group: compare the cliques that are there with those its replicas should have.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::deletion::{is_terminating, orphans_dependents};
use grove_api_types::expansion::{GroupReplica, ScalingGroup};
use grove_api_types::names::PodGangName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::plan::{Plan, Stage, Step, Waiting};

use super::desired::{self, Place};
use super::observed::Observed;
use crate::children::Revision;
use crate::children::{ByName, deletion, drift, too_large};

/// Reasons of events, as the wire format has them.
const CLIQUES_KEPT: &str = "PodCliqueCreateSuccessful";
const CLIQUES_REFUSED: &str = "PodCliqueCreateFailed";
const CLIQUES_GONE: &str = "PodCliqueDeleteSuccessful";
const CLIQUES_STAYED: &str = "PodCliqueDeleteFailed";

/// The plan for one group. A clique is made once the gang it is scheduled with is there; the cliques of replicas beyond the
/// group's size go.
pub fn plan(seen: &Observed) -> Plan {
    if seen.is_leaving() {
        return deletion_of_cliques(&seen.cliques, &seen.group);
    }
    let Some(set) = &seen.set else { return Plan::new().waiting([set_missing()]) };
    if seen.is_too_large() {
        return Plan::new().waiting([too_large()]);
    }
    // A set that leaves, or wants the group no longer, deletes it.
    let wanted = seen.wanted(set).filter(|_| !is_terminating(set));
    let Some(replica) = wanted else { return Plan::new() };
    let Some(group) = seen.of_group(&replica) else { return Plan::new() };
    let (steps, missing) = kept(seen, set, replica.index, group);
    let plan = Plan::new()
        .stage(Stage::new("cliques", steps).announcing(CLIQUES_KEPT, CLIQUES_REFUSED, "Created or updated"))
        .stage(Stage::new("scale-in", beyond(seen, group)).announcing(CLIQUES_GONE, CLIQUES_STAYED, "Deleted"))
        .waiting(missing.into_iter().map(gang_missing));
    let plan = seen.claims(&seen.base_labels()).settle(plan.in_parts(places(group)));
    // Cliques that are refused hold up nothing else, least of all the deletes that make room for them.
    seen.refused.left_out_of(plan)
}

/// The replica of each clique.
fn places(group: &ScalingGroup<'_>) -> BTreeMap<String, i32> {
    let of_member = |member: &GroupReplica<'_>| {
        let index = member.index;
        member.cliques.iter().map(move |clique| (clique.name.to_string(), index)).collect::<Vec<_>>()
    };
    group.members.iter().flat_map(of_member).collect()
}

/// Deletes the cliques of a group that is going or gone, unless it was to leave them.
pub(crate) fn deletion_of_cliques(cliques: &ByName<PodClique>, group: &PodCliqueScalingGroup) -> Plan {
    if orphans_dependents(group) {
        return Plan::new();
    }
    Plan::new().stage(Stage::new("children", deletion::all(cliques)).announcing(
        CLIQUES_GONE,
        CLIQUES_STAYED,
        "Deleted",
    ))
}

/// What makes the cliques what they should be, and the gangs for lack of which some are not made.
fn kept<'r>(
    seen: &Observed,
    set: &PodCliqueSet,
    set_replica: i32,
    group: &'r ScalingGroup<'_>,
) -> (Vec<Step>, BTreeSet<&'r PodGangName>) {
    let revision = Revision::of(&set.spec.template);
    let (mut steps, mut missing) = (Vec::new(), BTreeSet::new());
    for member in &group.members {
        let place = Place { set, set_replica, group, member };
        for clique in &member.cliques {
            let desired = desired::pod_clique(&seen.group, &revision, place, clique);
            let step = drift::clique(&seen.cliques, desired);
            if matches!(step, Some(Step::Create(_))) && !seen.gangs.contains(member.gang.as_str()) {
                missing.insert(&member.gang);
            } else {
                steps.extend(step);
            }
        }
    }
    (steps, missing)
}

/// Deletes of the cliques that no replica of the group has.
fn beyond(seen: &Observed, group: &ScalingGroup<'_>) -> Vec<Step> {
    let cliques = group.members.iter().flat_map(|member| &member.cliques);
    let wanted: BTreeSet<&str> = cliques.map(|clique| clique.name.as_str()).collect();
    deletion::but(&seen.cliques, |name| wanted.contains(name)).collect()
}

fn set_missing() -> Waiting {
    Waiting::new("PodCliqueSetMissing", "the PodCliqueSet that controls the group does not exist")
}

fn gang_missing(gang: &PodGangName) -> Waiting {
    Waiting::new("PodGangMissing", format!("PodGang {gang} does not exist"))
}
