//! Labels and annotations that others add to children: where they stay, and where Grove removes them as the Go operator does.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{SET, change, child, executed, new, plan};
use crate::set::desired::{SlimAutoscaler, SlimService};
use crate::set::observed::Observed;

/// A set of one replica that has every kind of child.
fn every_kind() -> Observed {
    let scaled = SET.replace("replicas: 2\n  template", "replicas: 1\n  template").replace(
        "minAvailable: 1, podSpec",
        "minAvailable: 1, autoScalingConfig: {minReplicas: 1, maxReplicas: 4}, podSpec",
    );
    executed(new(&format!("{scaled}    podCliqueScalingGroups: [{{name: g, cliqueNames: [decode]}}]\n")))
}

#[track_caller]
fn check(edit: impl FnOnce(&mut Observed), expected: &Expect) {
    let mut observed = every_kind();
    edit(&mut observed);
    expected.assert_eq(&plan(&observed).to_string());
}

fn add(map: &mut Option<BTreeMap<String, String>>, key: &str) {
    map.get_or_insert_default().insert(key.to_owned(), "x".to_owned());
}

fn label_and_annotate(metadata: &mut ObjectMeta) {
    add(&mut metadata.labels, "example.com/owner");
    add(&mut metadata.annotations, "example.com/owner");
}

#[test]
fn unedited_children_cause_no_write() {
    check(|_| (), &expect![["nothing to do\n"]]);
}

#[test]
fn annotations_of_an_autoscaler_stay() {
    let annotate = |observed: &mut Observed| {
        change::<SlimAutoscaler>(observed, "llm-0-prefill", |autoscaler| {
            add(&mut autoscaler.metadata.annotations, "example.com/owner");
        });
    };
    check(annotate, &expect![["nothing to do\n"]]);
    check(
        |observed| {
            annotate(observed);
            change::<SlimAutoscaler>(observed, "llm-0-prefill", |autoscaler| autoscaler.spec.max_replicas = 99);
        },
        &expect![[r#"
            autoscalers: patch HorizontalPodAutoscaler llm-0-prefill {"spec":{"maxReplicas":4}}
        "#]],
    );
}

#[test]
fn foreign_labels_of_an_autoscaler_are_removed() {
    check(
        |observed| change::<SlimAutoscaler>(observed, "llm-0-prefill", |child| label_and_annotate(&mut child.metadata)),
        &expect![[r#"
            autoscalers: patch HorizontalPodAutoscaler llm-0-prefill {"metadata":{"labels":{"example.com/owner":null}}}
        "#]],
    );
}

#[test]
fn foreign_labels_and_annotations_of_a_service_stay() {
    check(
        |observed| change::<SlimService>(observed, "llm-0", |child| label_and_annotate(&mut child.metadata)),
        &expect![["nothing to do\n"]],
    );
}

#[test]
fn unknown_grove_labels_of_a_service_are_removed() {
    check(
        |observed| {
            change::<SlimService>(observed, "llm-0", |child| add(&mut child.metadata.labels, "grove.io/podgang"));
        },
        &expect![[r#"
            services: patch Service llm-0 {"metadata":{"labels":{"grove.io/podgang":null}}}
        "#]],
    );
}

#[test]
fn foreign_labels_and_annotations_of_cliques_and_scaling_groups_are_removed() {
    check(
        |observed| {
            change::<PodClique>(observed, "llm-0-prefill", |child| label_and_annotate(&mut child.metadata));
            change::<PodCliqueScalingGroup>(observed, "llm-0-g", |child| label_and_annotate(&mut child.metadata));
        },
        &expect![[r#"
            groups: patch PodCliqueScalingGroup llm-0-g {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null}}}
            cliques: patch PodClique llm-0-prefill {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null}}}
        "#]],
    );
}

#[test]
fn grove_labels_and_annotations_of_a_gang_stay_and_foreign_ones_are_removed() {
    check(
        |observed| {
            change::<PodGang>(observed, "llm-0", |child| {
                add(&mut child.metadata.labels, "grove.io/other");
                add(&mut child.metadata.annotations, "grove.io/other-annotation");
            });
        },
        &expect![["nothing to do\n"]],
    );
    check(
        |observed| change::<PodGang>(observed, "llm-0", |child| label_and_annotate(&mut child.metadata)),
        &expect![[r#"
        gangs: patch PodGang llm-0 {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null},"resourceVersion":"7"}}
    "#]],
    );
}

#[test]
fn annotations_of_a_template_that_only_grove_sets_are_not_copied() {
    let mut observed = new(SET);
    let keys = [
        "topology-name",
        "pod-group",
        "pack-affinity",
        "resource-claims",
        "podcliquescalinggroup-first-pod-index",
        "podcliqueset-first-pod",
    ];
    let annotations = &mut observed.set.spec.template.cliques[1].annotations;
    annotations.extend(keys.map(|key| (format!("grove.io/{key}"), "x".to_owned())));
    annotations.insert("example.com/owner".to_owned(), "x".to_owned());
    let clique = child::<PodClique>(&executed(observed), "llm-0-decode");
    let keys: Vec<&str> = clique.annotations().keys().map(String::as_str).collect();
    assert_eq!(keys, ["example.com/owner", "grove.io/podcliqueset-generation-hash"]);
}
