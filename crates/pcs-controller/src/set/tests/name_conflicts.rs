//! Names that others have, and owners that were edited away.

use expect_test::{Expect, expect};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{Create, Step};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{SET, carried_out, change, keep, new, plan, status, stored};
use crate::set::observed::Observed;

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let plan = plan(observed);
    assert_eq!(plan.requeue_after, None, "an event brings it back, not time");
    expected.assert_eq(&plan.to_string());
}

/// A foreign object of the kind and name.
fn foreign<K: Resource<DynamicType = ()> + Default>(name: &str) -> NameConflict {
    let mut object = K::default();
    object.meta_mut().name = Some(name.to_owned());
    object.meta_mut().uid = Some("theirs".to_owned());
    NameConflict::with(&object)
}

/// What was a child, and nobody's now.
fn released<K: Resource<DynamicType = ()> + Clone>(child: &K) -> NameConflict {
    let mut object = child.clone();
    object.meta_mut().owner_references = None;
    NameConflict::with(&object)
}

#[test]
fn a_foreign_service_holds_up_its_replica_and_no_other() {
    let mut observed = new(SET);
    observed.name_conflicts = vec![foreign::<Service>("llm-0")];
    check(
        &observed,
        &expect![[r"
        services: create Service llm-1
        gangs: create PodGang llm-1
        cliques: create PodClique llm-1-prefill
        cliques: create PodClique llm-1-decode
        wait: NameConflict Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
    "]],
    );
}

#[test]
fn what_stands_in_a_replica_that_lacks_its_service_is_still_kept_right() {
    let mut observed = carried_out(new(SET));
    observed.services.remove("llm-0");
    change(&mut observed.cliques, "llm-0-decode", |clique| clique.spec.min_available = Some(7));
    observed.name_conflicts = vec![foreign::<Service>("llm-0")];
    check(
        &observed,
        &expect![[r#"
        cliques: patch PodClique llm-0-decode {"spec":{"minAvailable":1}}
        wait: NameConflict Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
    "#]],
    );
}

#[test]
fn the_set_names_the_foreign_object_until_it_is_gone() {
    let mut observed = carried_out(new(SET));
    observed.services.remove("llm-0");
    observed.name_conflicts = vec![foreign::<Service>("llm-0")];
    let told = status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let text = format!("{}: {}\n{}\n", told.conditions[0].reason, told.conditions[0].message, told.last_errors[0].code);
    expect![[r"
        NameConflict: 0 of 2 replicas are available; Service llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
        ERR_SYNC_PODCLIQUESET_SERVICE
    "]].assert_eq(&text);
    observed.name_conflicts.clear();
    assert!(status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH).last_errors.is_empty());
}

#[test]
fn children_of_every_kind_that_lost_their_owner_are_adopted() {
    let mut observed = carried_out(new(SET));
    let clique = observed.cliques.remove("llm-0-decode").expect("a clique");
    let gang = observed.gangs.remove("llm-0").expect("a gang");
    let service = observed.services.remove("llm-1").expect("a Service");
    observed.name_conflicts = vec![released(&*clique), released(&*gang), released(&*service)];
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
fn a_child_that_lost_its_owner_and_its_labels_is_not_taken_back() {
    let mut observed = carried_out(new(SET));
    let mut clique = (*observed.cliques.remove("llm-0-decode").expect("a clique")).clone();
    clique.labels_mut().remove("app.kubernetes.io/part-of");
    observed.name_conflicts = vec![released(&clique)];
    check(
        &observed,
        &expect![[r"
        wait: NameConflict PodClique llm-0-decode exists and PodCliqueSet llm does not control it; rename or delete it to free the name
    "]],
    );
}

#[test]
fn a_reference_to_the_owner_that_was_edited_is_put_right_beside_the_others() {
    let mut observed = carried_out(new(SET));
    change(&mut observed.cliques, "llm-0-decode", |clique| {
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
fn the_gang_tells_the_scheduler_that_its_pods_name() {
    let label = |scheduler: &str| {
        let set = SET.replace("podSpec: {containers", &format!("podSpec: {{schedulerName: {scheduler}, containers"));
        carried_out(new(&set)).gangs["llm-0"].labels()["grove.io/scheduler-name"].clone()
    };
    for known in ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"] {
        assert_eq!(label(known), known);
    }
    assert_eq!(label("of-somebody-else"), "default-scheduler");
    assert_eq!(carried_out(new(SET)).gangs["llm-0"].labels()["grove.io/scheduler-name"], "default-scheduler");
    let configured = Observed { default_scheduler: Scheduler::Kai, ..new(SET) };
    assert_eq!(carried_out(configured).gangs["llm-0"].labels()["grove.io/scheduler-name"], "kai-scheduler");
}

#[test]
fn a_scaling_group_that_lost_its_owner_is_as_large_as_it_is() {
    let group = "podCliqueScalingGroups: [{name: g, cliqueNames: [decode], replicas: 2, minAvailable: 1}]\n";
    let mut observed = new(&format!("{SET}    {group}"));
    observed.set.spec.replicas = 1;
    let mut observed = carried_out(observed);
    change(&mut observed.groups, "llm-0-g", |group| group.spec.replicas = 4);
    let mut observed = grown(observed);
    let group = observed.groups.remove("llm-0-g").expect("a group");
    observed.name_conflicts = vec![released(&*group)];
    observed.adoptable_groups.insert("llm-0-g".to_owned(), group);
    check(
        &observed,
        &expect![[r"
        groups: adopt PodCliqueScalingGroup llm-0-g
    "]],
    );
}

/// With the gangs of the group's further replicas.
fn grown(mut observed: Observed) -> Observed {
    for step in plan(&observed).steps() {
        let Step::Create(Create { target: _, object }) = step else { panic!("{step} is no create") };
        keep(&mut observed.gangs, stored::<PodGang>(object));
    }
    observed
}
