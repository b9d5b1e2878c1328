//! Which children are created, patched and deleted.

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::NamespacedName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{SET, carried_out, change, new, nothing};
use crate::set::observed::Observed;
use crate::set::plan::plan;

#[track_caller]
fn check(seen: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(seen).to_string());
}

#[test]
fn a_new_set_gets_services_then_gangs_then_cliques() {
    check(
        &new(SET),
        &expect![[r"
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
fn a_set_that_has_all_its_children_is_left_alone() {
    check(&carried_out(new(SET)), &expect![["nothing to do\n"]]);
}

#[test]
fn a_smaller_set_gives_up_all_of_its_highest_replica() {
    let mut seen = carried_out(new(SET));
    seen.set.spec.replicas = 1;
    check(
        &seen,
        &expect![[r"
            scale-in: delete PodClique llm-1-decode
            scale-in: delete PodClique llm-1-prefill
            scale-in: delete PodGang llm-1
            scale-in: delete Service llm-1
        "]],
    );
}

#[test]
fn a_clique_that_left_the_template_goes_and_its_group_with_it() {
    let mut seen = carried_out(new(SET));
    seen.set.spec.replicas = 1;
    let mut seen = carried_out(Observed { set: seen.set, ..nothing() });
    seen.set.spec.template.cliques.truncate(1);
    let text = plan(&seen).to_string();
    assert!(text.contains("scale-in: delete PodClique llm-0-decode\n"), "{text}");
    assert!(text.contains("gangs: patch PodGang llm-0") && text.contains(r#""resourceVersion":"7""#), "{text}");
}

#[test]
fn the_size_of_a_living_clique_is_its_own() {
    let mut seen = carried_out(new(SET));
    change(&mut seen.cliques, "llm-0-prefill", |clique| clique.spec.replicas = 9);
    check(&seen, &expect![["nothing to do\n"]]);
}

#[test]
fn an_edited_clique_is_put_right_by_the_narrowest_patch() {
    let mut seen = carried_out(new(SET));
    change(&mut seen.cliques, "llm-0-prefill", |clique| {
        clique.spec.min_available = Some(2);
        clique.labels_mut().insert("team".into(), "y".into());
    });
    check(
        &seen,
        &expect![[r#"
            cliques: patch PodClique llm-0-prefill {"metadata":{"labels":{"team":"x"}},"spec":{"minAvailable":1}}
        "#]],
    );
}

#[test]
fn references_to_pods_are_kept() {
    let mut seen = carried_out(new(SET));
    change(&mut seen.gangs, "llm-0", |gang| {
        let reference = NamespacedName { namespace: "prod".into(), name: "llm-0-prefill-abcde".into() };
        gang.spec.podgroups[0].pod_references.push(reference);
    });
    check(&seen, &expect![["nothing to do\n"]]);
    change(&mut seen.gangs, "llm-0", |gang| gang.spec.podgroups[0].min_replicas = 4);
    let text = plan(&seen).to_string();
    assert!(text.contains("llm-0-prefill-abcde"), "{text}");
}

#[test]
fn a_child_that_is_leaving_is_replaced_only_when_it_has_gone() {
    let mut seen = carried_out(new(SET));
    change(&mut seen.cliques, "llm-0-prefill", |clique| {
        clique.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    check(&seen, &expect![["nothing to do\n"]]);
    seen.cliques.remove("llm-0-prefill");
    check(
        &seen,
        &expect![[r"
            cliques: create PodClique llm-0-prefill
        "]],
    );
}

#[test]
fn a_set_that_is_leaving_deletes_its_children_and_creates_nothing() {
    let mut seen = carried_out(new(SET));
    seen.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    seen.cliques.retain(|name, _| name == "llm-0-prefill");
    seen.gangs.retain(|name, _| name == "llm-0");
    check(
        &seen,
        &expect![[r"
            children: delete PodClique llm-0-prefill
            children: delete PodGang llm-0
            children: delete Service llm-0
            children: delete Service llm-1
        "]],
    );
}

#[test]
fn the_memory_of_kubectl_is_not_mirrored() {
    let annotated = SET.replace(
        "generation: 3}",
        r#"generation: 3, annotations: {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kai.scheduler/queue": q}}"#,
    );
    let seen = carried_out(new(&annotated));
    let annotations: Vec<_> = seen.gangs["llm-0"].annotations().keys().cloned().collect();
    assert_eq!(annotations, ["kai.scheduler/queue"]);
}

#[test]
fn a_set_that_is_to_leave_its_children_leaves_them() {
    let mut seen = carried_out(new(SET));
    seen.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    seen.set.metadata.finalizers = Some(vec!["orphan".into()]);
    check(&seen, &expect![["nothing to do\n"]]);
}
