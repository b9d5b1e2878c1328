//! The children that are created, patched and deleted.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang};
use grove_api_types::v1alpha1::PodClique;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{SET, change, child, executed, new, plan, without_children};
use crate::set::CHILD_KINDS;
use crate::set::desired::SlimService;
use crate::set::observed::Observed;

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

#[test]
fn a_new_set_creates_services_then_gangs_then_cliques() {
    check(
        &new(SET),
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            services: create Service llm-1
            gangs: create PodGang llm-0
            gangs: create PodGang llm-1
            cliques: create PodClique llm-0-prefill
            cliques: create PodClique llm-0-decode
            cliques: create PodClique llm-1-prefill
            cliques: create PodClique llm-1-decode
        "]],
    );
}

#[test]
fn a_set_that_has_all_its_children_causes_no_write() {
    check(&executed(new(SET)), &expect![["nothing to do\n"]]);
}

#[test]
fn scale_in_deletes_all_children_of_the_highest_replica() {
    let mut observed = executed(new(SET));
    observed.set.spec.replicas = 1;
    check(
        &observed,
        &expect![[r"
            scale-in: delete PodClique llm-1-decode
            scale-in: delete PodClique llm-1-prefill
            scale-in: delete PodGang llm-1
            scale-in: delete Service llm-1
        "]],
    );
}

#[test]
fn a_plan_has_a_bounded_number_of_deletes() {
    let mut observed = executed(new(SET));
    let first = child::<SlimService>(&observed, "llm-0");
    observed.children.extend((2..5000).map(|number| {
        let mut service = (*first).clone();
        service.metadata.name = Some(format!("llm-{number}"));
        Arc::new(service)
    }));
    assert_eq!(plan(&observed).steps().count(), 4096);
    let deleted = CHILD_KINDS.delete_dependents(&observed.set, &observed.children);
    assert_eq!((deleted.steps().count(), deleted.continue_after), (4096, Some(Duration::from_secs(1))));
    let deleted = CHILD_KINDS.delete_dependents(&observed.set, &executed(new(SET)).children);
    assert_eq!((deleted.steps().count(), deleted.continue_after), (9, None));
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(plan(&observed).steps().count(), 4096);
}

#[test]
fn a_plan_has_a_bounded_number_of_creates_and_patches() {
    let mut observed = new(SET);
    observed.set.spec.replicas = 2100;
    assert_eq!(plan(&observed).steps().count(), 4096);
    let mut observed = executed(executed(executed(observed)));
    check(&observed, &expect![["nothing to do\n"]]);
    for clique in &mut observed.set.spec.template.cliques {
        clique.labels.insert("team".into(), "y".into());
    }
    assert_eq!(plan(&observed).steps().filter(|step| step.verb() == "patch").count(), 4096);
}

#[test]
fn a_clique_removed_from_the_template_is_deleted_and_its_pod_group_removed() {
    let mut observed = executed(new(SET));
    observed.set.spec.replicas = 1;
    let mut observed = executed(Observed { set: observed.set, ..without_children() });
    observed.set.spec.template.cliques.truncate(1);
    let text = plan(&observed).to_string();
    assert!(text.contains("scale-in: delete PodClique llm-0-decode\n"), "{text}");
    assert!(text.contains("gangs: patch PodGang llm-0") && text.contains(r#""resourceVersion":"7""#), "{text}");
}

#[test]
fn replicas_of_an_existing_clique_are_not_changed() {
    let mut observed = executed(new(SET));
    change::<PodClique>(&mut observed, "llm-0-prefill", |clique| clique.spec.replicas = 9);
    check(
        &observed,
        &expect![[r#"
            gangs: patch PodGang llm-0 {"metadata":{"annotations":{"grove.io/scale":"{\"v\":1,\"cliques\":{\"llm-0-prefill\":{\"replicas\":9,\"template\":2}}}"},"resourceVersion":"7"}}
        "#]],
    );
}

#[test]
fn an_edited_clique_is_corrected_by_the_narrowest_patch() {
    let mut observed = executed(new(SET));
    change::<PodClique>(&mut observed, "llm-0-prefill", |clique| {
        clique.spec.min_available = Some(2);
        clique.labels_mut().insert("team".into(), "y".into());
    });
    check(
        &observed,
        &expect![[r#"
            cliques: patch PodClique llm-0-prefill {"metadata":{"labels":{"team":"x"}},"spec":{"minAvailable":1}}
        "#]],
    );
}

#[test]
fn pod_references_of_a_gang_are_retained() {
    let mut observed = executed(new(SET));
    change::<PodGang>(&mut observed, "llm-0", |gang| {
        let reference = NamespacedName { namespace: "prod".into(), name: "llm-0-prefill-abcde".into() };
        gang.spec.podgroups[0].pod_references.push(reference);
    });
    check(&observed, &expect![["nothing to do\n"]]);
    change::<PodGang>(&mut observed, "llm-0", |gang| gang.spec.podgroups[0].min_replicas = 4);
    let text = plan(&observed).to_string();
    assert!(text.contains("llm-0-prefill-abcde"), "{text}");
}

#[test]
fn a_terminating_child_is_recreated_after_its_deletion() {
    let mut observed = executed(new(SET));
    change::<PodClique>(&mut observed, "llm-0-prefill", |clique| {
        clique.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    check(&observed, &expect![["nothing to do\n"]]);
    observed.children.by_name_mut::<PodClique>().remove("llm-0-prefill");
    check(
        &observed,
        &expect![[r"
            cliques: create PodClique llm-0-prefill
        "]],
    );
}

#[test]
fn a_terminating_set_deletes_its_children_and_creates_none() {
    let mut observed = executed(new(SET));
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    observed.children.by_name_mut::<PodClique>().retain(|name, _| name == "llm-0-prefill");
    observed.children.by_name_mut::<PodGang>().retain(|name, _| name == "llm-0");
    check(
        &observed,
        &expect![[r"
            children: delete PodClique llm-0-prefill at version 7
            children: delete PodGang llm-0 at version 7
            children: delete Service llm-0 at version 7
            children: delete Service llm-1 at version 7
            children: delete ControllerRevision llm-190a37f093cc17502 at version 7
        "]],
    );
    // A child that is already terminating is not deleted again.
    observed.set.metadata.finalizers = Some(vec!["foregroundDeletion".into()]);
    change::<PodGang>(&mut observed, "llm-0", |gang| {
        gang.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    check(
        &observed,
        &expect![[r"
            children: delete PodClique llm-0-prefill at version 7 in the foreground
            children: delete Service llm-0 at version 7 in the foreground
            children: delete Service llm-1 at version 7 in the foreground
            children: delete ControllerRevision llm-190a37f093cc17502 at version 7 in the foreground
        "]],
    );
}

#[test]
fn kubectls_last_applied_configuration_is_not_copied() {
    let annotated = SET.replace(
        "generation: 3}",
        r#"generation: 3, annotations: {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kai.scheduler/queue": q}}"#,
    );
    let observed = executed(new(&annotated));
    let annotations: Vec<_> = observed
        .children
        .get::<PodGang>("llm-0")
        .expect("a child of that name")
        .annotations()
        .keys()
        .cloned()
        .collect();
    assert_eq!(annotations, ["kai.scheduler/queue"]);
}

#[test]
fn a_set_deleted_with_cascade_orphan_keeps_its_children() {
    let mut observed = executed(new(SET));
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    // The garbage collector removes the finalizer `orphan` before the caches show that it has released all children.
    observed.orphans_children = true;
    check(&observed, &expect![["nothing to do\n"]]);
}

#[test]
fn a_terminating_set_loses_the_finalizer_of_the_go_operator_and_no_other() {
    let mut observed = executed(new(SET));
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    observed.set.metadata.finalizers =
        Some(vec!["example.com/hold".into(), "grove.io/podcliqueset.grove.io".into(), "orphan".into()]);
    observed.orphans_children = true;
    check(
        &observed,
        &expect![[r#"
            finalizers: patch PodCliqueSet llm [{"op":"test","path":"/metadata/uid","value":"u-set"},{"op":"test","path":"/metadata/finalizers/1","value":"grove.io/podcliqueset.grove.io"},{"op":"remove","path":"/metadata/finalizers/1"}]
        "#]],
    );
    observed.orphans_children = false;
    let plan = plan(&observed);
    let text = plan.to_string();
    assert!(text.starts_with("finalizers: patch") && text.contains("\nchildren: delete PodClique"), "{text}");
    assert!(plan.has_independent_stages, "a rejected patch blocks no delete");
}

#[test]
fn an_active_set_keeps_the_finalizer_of_the_go_operator() {
    let mut observed = executed(new(SET));
    observed.set.metadata.finalizers = Some(vec!["grove.io/podcliqueset.grove.io".into()]);
    check(&observed, &expect![["nothing to do\n"]]);
}
