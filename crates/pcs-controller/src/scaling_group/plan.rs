//! Plans the next writes for a scaling group: compares the observed cliques with the desired ones.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::conditions::available;
use grove_api_types::deletion::{is_terminating, orphans_dependents};
use grove_api_types::events;
use grove_api_types::expansion::{GroupReplica, ScalingGroup};
use grove_api_types::names::PodGangName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::plan::{Plan, Stage, Step, Waiting};
use k8s_openapi::jiff::Timestamp;

use super::desired::{self, CliqueContext};
use super::observed::Observed;
use crate::children::Revision;
use crate::children::{ByName, deletion, drift, too_large};

/// The plan for one group. It creates a clique once the clique's gang exists, and deletes the cliques of replicas beyond
/// the replica count of the group.
pub(crate) fn plan(observed: &Observed, _now: Timestamp) -> Plan {
    if observed.is_terminating() {
        return delete_children(&observed.group, &observed.cliques);
    }
    let Some(set) = &observed.set else { return Plan::new().waiting([set_not_found()]) };
    if observed.is_too_large() {
        return Plan::new().waiting([too_large::waiting()]);
    }
    // A set that is terminating, or no longer has the group, deletes the group.
    let desired = observed.desired_replica(set).filter(|_| !is_terminating(set));
    let Some(replica) = desired else { return Plan::new() };
    let Some(group) = observed.in_replica(&replica) else { return Plan::new() };
    let (steps, missing_gangs) = reconcile_children(observed, set, replica.index, group);
    let plan = Plan::new()
        .stage(Stage::new("cliques", steps).with_event(
            events::POD_CLIQUE_CREATE_SUCCESSFUL,
            events::POD_CLIQUE_CREATE_FAILED,
            "Created or updated",
        ))
        .stage(with_delete_events(Stage::new("scale-in", surplus_cliques(observed, group))))
        .waiting(missing_gangs.into_iter().map(gang_not_found));
    let plan = observed.conflicts(&observed.base_labels()).resolve(plan.with_failure_domains(replica_of_child(group)));
    // A rejected clique blocks nothing else, in particular not the deletes that may release quota for it.
    observed.pending_creates.remove_from(observed.backed_off.remove_from(plan))
}

/// The replica index of each clique, by name.
fn replica_of_child(group: &ScalingGroup<'_>) -> BTreeMap<String, i32> {
    let of_member = |member: &GroupReplica<'_>| {
        let index = member.index;
        member.cliques.iter().map(move |clique| (clique.name.to_string(), index)).collect::<Vec<_>>()
    };
    group.members.iter().flat_map(of_member).collect()
}

/// Deletes the cliques of a group that is terminating or deleted, unless its deletion orphans them.
pub(crate) fn delete_children(group: &PodCliqueScalingGroup, cliques: &ByName<PodClique>) -> Plan {
    if orphans_dependents(group) {
        return Plan::new();
    }
    Plan::new().stage(with_delete_events(Stage::new("children", deletion::all(cliques))))
}

fn with_delete_events(stage: Stage) -> Stage {
    stage.with_event(events::POD_CLIQUE_DELETE_SUCCESSFUL, events::POD_CLIQUE_DELETE_FAILED, "Deleted")
}

/// The creates and patches of cliques, and the missing gangs for which creates wait.
fn reconcile_children<'r>(
    observed: &Observed,
    set: &PodCliqueSet,
    set_replica: i32,
    group: &'r ScalingGroup<'_>,
) -> (Vec<Step>, BTreeSet<&'r PodGangName>) {
    let revision = Revision::of(&set.spec.template);
    let (mut steps, mut missing_gangs) = (Vec::new(), BTreeSet::new());
    for member in &group.members {
        let context = CliqueContext { set, set_replica, group, member };
        for clique in &member.cliques {
            let desired = desired::pod_clique(&observed.group, &revision, context, clique);
            let step = drift::clique(&observed.cliques, desired);
            if matches!(step, Some(Step::Create(_))) && !observed.active_gangs.contains(member.gang.as_str()) {
                missing_gangs.insert(&member.gang);
            } else {
                steps.extend(step);
            }
        }
    }
    (steps, missing_gangs)
}

/// Deletes of the cliques that are in no replica of the group.
fn surplus_cliques(observed: &Observed, group: &ScalingGroup<'_>) -> Vec<Step> {
    let cliques = group.members.iter().flat_map(|member| &member.cliques);
    let desired: BTreeSet<&str> = cliques.map(|clique| clique.name.as_str()).collect();
    deletion::all_except(&observed.cliques, |name| desired.contains(name)).collect()
}

fn set_not_found() -> Waiting {
    Waiting::new(available::POD_CLIQUE_SET_NOT_FOUND, "the PodCliqueSet that controls the group does not exist")
}

fn gang_not_found(gang: &PodGangName) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {gang} does not exist"))
}
