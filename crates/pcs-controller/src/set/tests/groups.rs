//! Scaling groups of a set, their gangs and their autoscalers.

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::labels::SCALE;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use kube::ResourceExt;

use super::{change, executed, new, plan};
use crate::set::desired::SlimAutoscaler;
use crate::set::observed::Observed;
use crate::tests::GROUPED;

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

/// The groups of each gang: name and minimum.
fn gangs(observed: &Observed) -> String {
    let group = |group: &GangPodGroup| format!("{} {}", group.name, group.min_replicas);
    let gang = |gang: &Arc<PodGang>| {
        format!("{}: {}\n", gang.name_any(), gang.spec.podgroups.iter().map(group).collect::<Vec<_>>().join(", "))
    };
    observed.children.of_kind().map(gang).collect()
}

#[test]
fn a_new_set_creates_the_gangs_of_all_replicas_of_its_groups() {
    let observed = new(GROUPED);
    check(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision m-1431e6d8dce39d9d3
            services: create Service m-0
            service-accounts: create ServiceAccount m
            roles: create Role grove.io:pcs:m
            role-bindings: create RoleBinding grove.io:pcs:m
            gangs: create PodGang m-0
            gangs: create PodGang m-0-g-0
            gangs: create PodGang m-0-g-1
            groups: create PodCliqueScalingGroup m-0-g
            cliques: create PodClique m-0-f
            autoscalers: create HorizontalPodAutoscaler m-0-f
            autoscalers: create HorizontalPodAutoscaler m-0-g
            wait: StartupTokenPending the token of waiting pods is created after their ServiceAccount
        "]],
    );
    expect![[r"
        m-0: m-0-f 1, m-0-g-0-p 1, m-0-g-0-d 2
        m-0-g-0: m-0-g-1-p 1, m-0-g-1-d 2
        m-0-g-1: m-0-g-2-p 1, m-0-g-2-d 2
    "]]
    .assert_eq(&gangs(&executed(observed)));
}

#[test]
fn a_set_that_has_its_groups_causes_no_write() {
    check(
        &executed(new(GROUPED)),
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn scaling_a_group_creates_and_deletes_its_gangs() {
    let mut observed = executed(new(GROUPED));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 5);
    check(
        &observed,
        &expect![[r#"
            gangs: patch PodGang m-0 {"metadata":{"annotations":{"grove.io/scale":"{\"v\":1,\"groups\":{\"m-0-g\":{\"replicas\":5,\"template\":3}}}"},"resourceVersion":"7"}}
            gangs: create PodGang m-0-g-2
            gangs: create PodGang m-0-g-3
        "#]],
    );
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 2);
    check(
        &observed,
        &expect![[r#"
            gangs: patch PodGang m-0 {"metadata":{"annotations":{"grove.io/scale":"{\"v\":1,\"groups\":{\"m-0-g\":{\"replicas\":2,\"template\":3}}}"},"resourceVersion":"7"}}
            scale-in: delete PodGang m-0-g-1
        "#]],
    );
}

#[test]
fn a_group_below_its_minimum_is_not_part_of_the_base_gang() {
    let mut observed = executed(new(GROUPED));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 0);
    observed.children.by_name_mut::<PodGang>().clear();
    expect![[r"
        m-0: m-0-f 1
    "]]
    .assert_eq(&gangs(&executed(observed)));
}

#[test]
fn replicas_of_an_existing_group_are_not_changed_and_other_fields_are_corrected() {
    let mut observed = executed(new(GROUPED));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| {
        group.spec.min_available = Some(3);
        group.spec.clique_names.reverse();
        group.labels_mut().remove("grove.io/podcliqueset-replica-index");
    });
    check(
        &observed,
        &expect![[r#"
        groups: patch PodCliqueScalingGroup m-0-g {"metadata":{"labels":{"grove.io/podcliqueset-replica-index":"0"}},"spec":{"cliqueNames":["p","d"],"minAvailable":1}}
    "#]],
    );
}

#[test]
fn an_edited_autoscaler_is_corrected_and_an_equal_quantity_is_no_difference() {
    let mut observed = executed(new(GROUPED));
    change::<SlimAutoscaler>(&mut observed, "m-0-g", |autoscaler| {
        autoscaler.spec.metrics[0].edit(|metric| {
            let source = metric.get_mut("pods").expect("the source");
            assert_eq!(source["target"]["averageValue"], "1500m");
            source["target"] = serde_json::json!({ "type": "AverageValue", "averageValue": "1.5" });
        });
    });
    check(
        &observed,
        &expect![[r"
        nothing to do
    "]],
    );
    change::<SlimAutoscaler>(&mut observed, "m-0-g", |autoscaler| autoscaler.spec.max_replicas = 99);
    check(
        &observed,
        &expect![[r#"
        autoscalers: patch HorizontalPodAutoscaler m-0-g {"spec":{"maxReplicas":8}}
    "#]],
    );
}

#[test]
fn an_autoscaler_without_config_is_deleted() {
    let mut observed = executed(new(GROUPED));
    observed.set.spec.template.cliques[0].spec.auto_scaling_config = None;
    check(
        &observed,
        &expect![[r#"
        cliques: patch PodClique m-0-f {"spec":{"autoScalingConfig":null}}
        scale-in: delete HorizontalPodAutoscaler m-0-f
    "#]],
    );
}

#[test]
fn scale_in_deletes_the_groups_and_their_gangs() {
    let mut observed = executed(new(GROUPED));
    observed.set.spec.replicas = 0;
    check(
        &observed,
        &expect![[r"
            scale-in: delete HorizontalPodAutoscaler m-0-f
            scale-in: delete HorizontalPodAutoscaler m-0-g
            scale-in: delete PodClique m-0-f
            scale-in: delete PodCliqueScalingGroup m-0-g
            scale-in: delete PodGang m-0
            scale-in: delete PodGang m-0-g-0
            scale-in: delete PodGang m-0-g-1
            scale-in: delete Service m-0
        "]],
    );
}

#[test]
fn the_recorded_scale_of_its_cliques_stays_in_the_annotations_of_a_group() {
    let record = r#"{"v":1,"cliques":{"m-0-g-0-d":{"replicas":5,"template":3}}}"#;
    let mut observed = executed(new(GROUPED));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| {
        drop(group.annotations_mut().insert(SCALE.to_owned(), record.to_owned()));
    });
    check(&observed, &expect![["nothing to do\n"]]);
}

/// Otherwise both reconcilers would write the annotation, again and again.
#[test]
fn a_group_does_not_get_the_record_of_its_cliques_from_the_template() {
    let template = GROUPED.replace("- name: g\n", "- name: g\n      annotations: {grove.io/scale: x, team: z}\n");
    let observed = executed(new(&template));
    let group = observed.children.get::<PodCliqueScalingGroup>("m-0-g").expect("the group");
    assert_eq!(group.annotations().keys().collect::<Vec<_>>(), ["grove.io/podcliqueset-generation-hash", "team"]);
}
