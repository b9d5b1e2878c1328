//! Plans the next writes for a set: compares the observed children with the desired ones.

use std::collections::BTreeMap;

use grove_api_types::deletion::orphans_dependents;
use grove_api_types::expansion::{self, SetReplica};
use grove_api_types::{events, labels};
use grove_controller::plan::{Plan, Stage, Step};
use k8s_openapi::jiff::Timestamp;

use super::desired;
use super::observed::Observed;
use crate::children::Revision;
use crate::children::{deletion, drift, service, too_large};

mod scale_in;

/// Adds the events of a stage that deletes children: one event per kind.
fn with_delete_events(stage: Stage) -> Stage {
    stage
        .with_event_for_kind(
            "PodCliqueScalingGroup",
            events::POD_CLIQUE_SCALING_GROUP_DELETE_SUCCESSFUL,
            events::POD_CLIQUE_SCALING_GROUP_DELETE_FAILED,
            "Deleted",
        )
        .with_event_for_kind(
            "PodClique",
            events::POD_CLIQUE_DELETE_SUCCESSFUL,
            events::POD_CLIQUE_DELETE_FAILED,
            "Deleted",
        )
        .with_event_for_kind("PodGang", events::POD_GANG_DELETE_SUCCESSFUL, events::POD_GANG_DELETE_FAILED, "Deleted")
}

/// The plan for one set. It creates gangs before their cliques, so that no pod waits for its gang to be created, and
/// cliques and groups before their autoscalers. It deletes the children of removed replicas last.
pub(crate) fn plan(observed: &Observed, _now: Timestamp) -> Plan {
    if observed.is_terminating() {
        return delete_children(observed);
    }
    if observed.is_too_large() {
        return Plan::new().waiting([too_large::waiting()]);
    }
    let replicas = expansion::expand(&observed.set, &observed.current_scale());
    let ChildSteps { services, gangs, groups, cliques, autoscalers } = reconcile_children(observed, &replicas);
    let plan = Plan::new()
        .stage(Stage::new("services", services).with_failure_event(events::SERVICE_CREATE_OR_UPDATE_FAILED))
        .stage(Stage::new("gangs", gangs).with_event(
            events::POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL,
            events::POD_GANG_CREATE_OR_UPDATE_FAILED,
            "Created or updated",
        ))
        .stage(Stage::new("groups", groups).with_event(
            events::POD_CLIQUE_SCALING_GROUP_CREATE_SUCCESSFUL,
            events::POD_CLIQUE_SCALING_GROUP_CREATE_OR_UPDATE_FAILED,
            "Created or updated",
        ))
        .stage(Stage::new("cliques", cliques).with_event(
            events::POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL,
            events::POD_CLIQUE_CREATE_OR_UPDATE_FAILED,
            "Created or updated",
        ))
        .stage(
            Stage::new("autoscalers", autoscalers)
                .with_failure_event(events::HORIZONTAL_POD_AUTOSCALER_CREATE_OR_UPDATE_FAILED),
        )
        .stage(scale_in::stage(observed, &replicas));
    // A child that cannot be created, because of a name conflict or a rejection, blocks the later stages of its own
    // replica only.
    let plan = if plan.is_empty() { plan } else { plan.with_failure_domains(replica_of_child(&replicas)) };
    let plan = observed.conflicts(&labels::base(&observed.name())).resolve(plan);
    observed.pending_creates.remove_from(observed.backed_off.remove_from(plan))
}

/// The replica index of each child, by name. Children of different kinds that share a name are in the same replica.
fn replica_of_child(replicas: &[SetReplica<'_>]) -> BTreeMap<String, i32> {
    let of_replica = |replica: &SetReplica<'_>| {
        let groups = replica.groups.iter().map(|group| group.name.to_string());
        let cliques = replica.cliques.iter().map(|clique| clique.name.to_string());
        let gangs = replica.gangs().into_iter().map(|gang| gang.name.to_string());
        let names = groups.chain(cliques).chain(gangs.collect::<Vec<_>>()).chain([replica.service.to_string()]);
        names.map(|name| (name, replica.index)).collect::<Vec<_>>()
    };
    replicas.iter().flat_map(of_replica).collect()
}

/// The creates and patches of children, by kind.
#[derive(Default)]
struct ChildSteps {
    services: Vec<Step>,
    gangs: Vec<Step>,
    groups: Vec<Step>,
    cliques: Vec<Step>,
    autoscalers: Vec<Step>,
}

fn reconcile_children(observed: &Observed, replicas: &[SetReplica<'_>]) -> ChildSteps {
    let set = &observed.set;
    let revision = Revision::of(&set.spec.template);
    let mut steps = ChildSteps::default();
    for replica in replicas {
        steps.services.extend(service::drift(&observed.services, desired::headless_service(set, replica)));
        for gang in &replica.gangs() {
            let desired = desired::pod_gang(set, gang, observed.default_scheduler);
            steps.gangs.extend(drift::gang(&observed.gangs, desired));
        }
        for group in &replica.groups {
            let desired = desired::scaling_group(set, replica.index, group);
            steps.groups.extend(drift::group(&observed.groups, desired));
        }
        for clique in &replica.cliques {
            let desired = desired::pod_clique(set, &revision, replica, clique);
            steps.cliques.extend(drift::clique(&observed.cliques, desired));
        }
        for autoscaler in &replica.autoscalers() {
            let desired = desired::autoscaler(set, autoscaler);
            steps.autoscalers.extend(drift::autoscaler(&observed.autoscalers, desired));
        }
    }
    steps
}

/// Deletes the children of a set that is terminating or deleted, unless its deletion orphans them.
pub(crate) fn delete_children(observed: &Observed) -> Plan {
    if orphans_dependents(&observed.set) {
        return Plan::new();
    }
    let steps = deletion::all(&observed.autoscalers)
        .chain(deletion::all(&observed.groups))
        .chain(deletion::all(&observed.cliques))
        .chain(deletion::all(&observed.gangs))
        .chain(deletion::all(&observed.services));
    Plan::new().stage(with_delete_events(Stage::new("children", steps)))
}
