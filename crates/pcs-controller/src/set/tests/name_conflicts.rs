//! Name conflicts, orphans, and edited owner references.

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Step;
use grove_runtime::caches::UnreadableObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{CHILD_KINDS, SET, change, child, executed, new, plan, status_of, stored};
use crate::set::desired::SlimService;
use crate::set::observed::Observed;

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let plan = plan(observed);
    expected.assert_eq(&plan.to_string());
}

/// An object of the kind and name that the set does not control.
fn foreign<K: Resource<DynamicType = ()> + Default>(name: &str) -> NameConflict {
    let mut object = K::default();
    object.meta_mut().name = Some(name.to_owned());
    object.meta_mut().uid = Some("foreign".to_owned());
    NameConflict::with(&object)
}

/// The child, after a change that cannot be decoded.
fn unreadable<K: Resource<DynamicType = ()>>(child: &K) -> NameConflict {
    let reason = "missing field `spec`".to_owned();
    NameConflict::with_unreadable::<K>(&UnreadableObject { metadata: child.meta().clone(), reason })
}

/// The child without its owner reference.
fn orphan<K: Resource<DynamicType = ()> + Clone>(child: &K) -> NameConflict {
    let mut object = child.clone();
    object.meta_mut().owner_references = None;
    NameConflict::with(&object)
}

#[test]
fn a_service_name_conflict_blocks_only_its_replica() {
    let mut observed = new(SET);
    observed.name_conflicts = vec![foreign::<SlimService>("llm-0")];
    check(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-1
            gangs: create PodGang llm-1
            cliques: create PodClique llm-1-prefill
            cliques: create PodClique llm-1-decode
            wait: NameConflict Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
}

/// The children of an earlier set of the same name disappear one after the other. A status write for each of them would be too many.
#[test]
fn the_status_does_not_name_terminating_objects_with_the_names_of_children() {
    let mut observed = new(SET);
    observed.name_conflicts = vec![foreign::<SlimService>("llm-0"), foreign::<SlimService>("llm-1")];
    for conflict in &mut observed.name_conflicts {
        conflict.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    }
    assert!(plan(&observed).waiting.iter().any(|waiting| waiting.reason == "NameTerminating"));
    while let Some(conflict) = observed.name_conflicts.pop() {
        let condition = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH).conditions.remove(0);
        assert_eq!(condition.message, "0 of 2 replicas are available", "without {}", conflict.target);
        assert_eq!(condition.reason, "MinimumReplicasUnavailable");
    }
}

#[test]
fn existing_children_of_a_blocked_replica_are_still_corrected() {
    let mut observed = executed(new(SET));
    observed.children.by_name_mut::<SlimService>().remove("llm-0");
    change::<PodClique>(&mut observed, "llm-0-decode", |clique| clique.spec.min_available = Some(7));
    observed.name_conflicts = vec![foreign::<SlimService>("llm-0")];
    check(
        &observed,
        &expect![[r#"
            cliques: patch PodClique llm-0-decode {"spec":{"minAvailable":1}}
            wait: NameConflict Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "#]],
    );
}

#[test]
fn a_name_conflict_is_in_the_status_until_it_is_resolved() {
    let mut observed = executed(new(SET));
    observed.children.by_name_mut::<SlimService>().remove("llm-0");
    observed.name_conflicts = vec![foreign::<SlimService>("llm-0")];
    let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let text =
        format!("{}: {}\n{}\n", status.conditions[0].reason, status.conditions[0].message, status.last_errors[0].code);
    expect![[r"
        NameConflict: 0 of 2 replicas are available; Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
        ERR_SYNC_PODCLIQUESET_SERVICE
    "]].assert_eq(&text);
    observed.name_conflicts.clear();
    assert!(status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH).last_errors.is_empty());
}

#[test]
fn an_unreadable_child_is_reported_and_blocks_only_its_replica() {
    let mut observed = executed(new(SET));
    let service = observed.children.by_name_mut::<SlimService>().remove("llm-0").expect("a Service");
    observed.children.by_name_mut::<PodClique>().remove("llm-0-decode");
    observed.children.by_name_mut::<PodClique>().remove("llm-1-decode");
    observed.name_conflicts = vec![unreadable(&*service)];
    check(
        &observed,
        &expect![[r"
            cliques: create PodClique llm-1-decode
            wait: UnreadableObject Service llm-0 exists and could not be decoded: missing field `spec`; correct or delete it
        "]],
    );
    let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(status.conditions[0].reason, "UnreadableObject");
    assert_eq!(status.last_errors[0].code, "ERR_SYNC_PODCLIQUESET_SERVICE");
}

/// The scale of the clique or of the group decides which gangs the set has.
#[test]
fn a_set_waits_for_an_unreadable_clique_or_group_without_an_earlier_state() {
    let mut observed = executed(new(SET));
    change::<PodClique>(&mut observed, "llm-1-prefill", |clique| clique.spec.min_available = Some(7));
    let clique = observed.children.by_name_mut::<PodClique>().remove("llm-0-decode").expect("a clique");
    observed.name_conflicts = vec![unreadable(&*clique)];
    check(
        &observed,
        &expect![[r"
        wait: UnreadableObject PodClique llm-0-decode exists and could not be decoded: missing field `spec`; correct or delete it
    "]],
    );
    observed.children.extend([clique]);
    check(
        &observed,
        &expect![[r#"
        cliques: patch PodClique llm-1-prefill {"spec":{"minAvailable":1}}
    "#]],
    );
}

#[test]
fn orphans_of_every_kind_are_adopted() {
    let mut observed = executed(new(SET));
    let clique = observed.children.by_name_mut::<PodClique>().remove("llm-0-decode").expect("a clique");
    let gang = observed.children.by_name_mut::<PodGang>().remove("llm-0").expect("a gang");
    let service = observed.children.by_name_mut::<SlimService>().remove("llm-1").expect("a Service");
    observed.name_conflicts = vec![orphan(&*clique), orphan(&*gang), orphan(&*service)];
    check(
        &observed,
        &expect![[r"
        services: adopt Service llm-1
        gangs: adopt PodGang llm-0
        cliques: adopt PodClique llm-0-decode
    "]],
    );
}

#[test]
fn an_orphan_without_the_labels_of_the_set_is_not_adopted() {
    let mut observed = executed(new(SET));
    let mut clique = (*observed.children.by_name_mut::<PodClique>().remove("llm-0-decode").expect("a clique")).clone();
    clique.labels_mut().remove("app.kubernetes.io/part-of");
    observed.name_conflicts = vec![orphan(&clique)];
    check(
        &observed,
        &expect![[r"
            wait: NameConflict PodClique llm-0-decode exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
}

#[test]
fn an_edited_owner_reference_is_corrected_and_foreign_ones_stay() {
    let mut observed = executed(new(SET));
    change::<PodClique>(&mut observed, "llm-0-decode", |clique| {
        let references = clique.owner_references_mut();
        references[0].block_owner_deletion = None;
        references.push(OwnerReference { uid: "other".into(), ..OwnerReference::default() });
    });
    check(
        &observed,
        &expect![[r#"
        cliques: patch PodClique llm-0-decode {"metadata":{"ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":"other"},{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"}],"resourceVersion":"7"}}
    "#]],
    );
}

#[test]
fn a_gang_is_labelled_with_the_scheduler_of_its_pods() {
    let label = |scheduler: &str| {
        let set = SET.replace("podSpec: {containers", &format!("podSpec: {{schedulerName: {scheduler}, containers"));
        child::<PodGang>(&executed(new(&set)), "llm-0").labels()["grove.io/scheduler-name"].clone()
    };
    for known in ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"] {
        assert_eq!(label(known), known);
    }
    assert_eq!(label("unknown"), "default-scheduler");
    assert_eq!(child::<PodGang>(&executed(new(SET)), "llm-0").labels()["grove.io/scheduler-name"], "default-scheduler");
    let configured = Observed { default_scheduler: Scheduler::Kai, ..new(SET) };
    assert_eq!(child::<PodGang>(&executed(configured), "llm-0").labels()["grove.io/scheduler-name"], "kai-scheduler");
}

#[test]
fn the_annotations_of_a_gang_for_its_scheduler_are_restored() {
    let queue = "{name: decode, annotations: {kai.scheduler/queue: q}, ";
    let set = SET.replace("podSpec: {containers", "podSpec: {schedulerName: kai-scheduler, containers");
    let set = set.replace("{name: decode, ", queue);
    assert!(set.contains(queue), "{set}");
    let executed = executed(new(&set));
    let gang = child::<PodGang>(&executed, "llm-0");
    let expected = [("kai.scheduler/queue", "q"), ("kai.scheduler/skip-podgrouper", "true")];
    let annotations: Vec<_> = gang.annotations().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(annotations, expected);
    let mut edited = PodGang::clone(&gang);
    edited.annotations_mut().clear();
    let mut observed = executed.clone();
    observed.children.extend([Arc::new(edited)]);
    check(
        &observed,
        &expect![[r#"
        gangs: patch PodGang llm-0 {"metadata":{"annotations":{"kai.scheduler/queue":"q","kai.scheduler/skip-podgrouper":"true"},"resourceVersion":"7"}}
    "#]],
    );
}

#[test]
fn an_orphaned_scaling_group_is_adopted_with_its_current_scale() {
    let group = "podCliqueScalingGroups: [{name: g, cliqueNames: [decode], replicas: 2, minAvailable: 1}]\n";
    let mut observed = new(&format!("{SET}    {group}"));
    observed.set.spec.replicas = 1;
    let mut observed = executed(observed);
    change::<PodCliqueScalingGroup>(&mut observed, "llm-0-g", |group| group.spec.replicas = 4);
    let mut observed = with_gangs(observed);
    let group = observed.children.by_name_mut::<PodCliqueScalingGroup>().remove("llm-0-g").expect("a group");
    observed.name_conflicts = vec![orphan(&*group)];
    observed.adoptable_groups.insert("llm-0-g".to_owned(), group);
    check(
        &observed,
        &expect![[r#"
            gangs: patch PodGang llm-0 {"metadata":{"annotations":{"grove.io/scale":"{\"v\":1,\"groups\":{\"llm-0-g\":{\"replicas\":4,\"template\":2}}}"},"resourceVersion":"7"}}
            groups: adopt PodCliqueScalingGroup llm-0-g
        "#]],
    );
}

/// The snapshot with the gangs of the group's additional replicas.
fn with_gangs(mut observed: Observed) -> Observed {
    for step in plan(&observed).steps() {
        let Step::Create(create) = step else { continue };
        assert!(CHILD_KINDS.apply_create(create, &mut observed.children, stored));
    }
    observed
}
