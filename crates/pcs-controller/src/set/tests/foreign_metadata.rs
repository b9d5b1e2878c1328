//! What others put on a child: it stays where the wire format lets it stay, and goes where the set says all there is.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{SET, carried_out, change, new, plan};
use crate::set::observed::Observed;

/// A set of one replica that has every kind of child.
fn every_kind() -> Observed {
    let scaled = SET.replace("replicas: 2\n  template", "replicas: 1\n  template").replace(
        "minAvailable: 1, podSpec",
        "minAvailable: 1, autoScalingConfig: {minReplicas: 1, maxReplicas: 4}, podSpec",
    );
    carried_out(new(&format!("{scaled}    podCliqueScalingGroups: [{{name: g, cliqueNames: [decode]}}]\n")))
}

#[track_caller]
fn check(edit: impl FnOnce(&mut Observed), expected: &Expect) {
    let mut observed = every_kind();
    edit(&mut observed);
    expected.assert_eq(&plan(&observed).to_string());
}

fn put(texts: &mut Option<BTreeMap<String, String>>, key: &str) {
    texts.get_or_insert_default().insert(key.to_owned(), "x".to_owned());
}

fn label_and_annotate(metadata: &mut ObjectMeta) {
    put(&mut metadata.labels, "example.com/owner");
    put(&mut metadata.annotations, "example.com/owner");
}

#[test]
fn nothing_was_put_there() {
    check(|_| (), &expect![["nothing to do\n"]]);
}

#[test]
fn annotations_of_an_autoscaler_stay() {
    let annotate = |observed: &mut Observed| {
        change(&mut observed.autoscalers, "llm-0-prefill", |autoscaler| {
            put(&mut autoscaler.metadata.annotations, "example.com/owner");
        });
    };
    check(annotate, &expect![["nothing to do\n"]]);
    check(
        |observed| {
            annotate(observed);
            change(&mut observed.autoscalers, "llm-0-prefill", |autoscaler| autoscaler.spec.max_replicas = 99);
        },
        &expect![[r#"
            autoscalers: patch HorizontalPodAutoscaler llm-0-prefill {"spec":{"maxReplicas":4}}
        "#]],
    );
}

#[test]
fn labels_of_an_autoscaler_are_groves() {
    check(
        |observed| change(&mut observed.autoscalers, "llm-0-prefill", |child| label_and_annotate(&mut child.metadata)),
        &expect![[r#"
            autoscalers: patch HorizontalPodAutoscaler llm-0-prefill {"metadata":{"labels":{"example.com/owner":null}}}
        "#]],
    );
}

#[test]
fn what_others_put_on_a_service_stays() {
    check(
        |observed| change(&mut observed.services, "llm-0", |child| label_and_annotate(&mut child.metadata)),
        &expect![["nothing to do\n"]],
    );
}

#[test]
fn labels_of_groves_own_that_a_service_should_not_have_go() {
    check(
        |observed| change(&mut observed.services, "llm-0", |child| put(&mut child.metadata.labels, "grove.io/podgang")),
        &expect![[r#"
            services: patch Service llm-0 {"metadata":{"labels":{"grove.io/podgang":null}}}
        "#]],
    );
}

#[test]
fn of_a_clique_and_a_scaling_group_the_set_says_all() {
    check(
        |observed| {
            change(&mut observed.cliques, "llm-0-prefill", |child| label_and_annotate(&mut child.metadata));
            change(&mut observed.groups, "llm-0-g", |child| label_and_annotate(&mut child.metadata));
        },
        &expect![[r#"
            groups: patch PodCliqueScalingGroup llm-0-g {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null}}}
            cliques: patch PodClique llm-0-prefill {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null}}}
        "#]],
    );
}

#[test]
fn on_a_gang_stays_what_another_service_of_groves_keeps_there() {
    check(
        |observed| {
            change(&mut observed.gangs, "llm-0", |child| {
                put(&mut child.metadata.labels, "grove.io/kept");
                put(&mut child.metadata.annotations, "grove.io/topology-name");
            });
        },
        &expect![["nothing to do\n"]],
    );
    check(
        |observed| change(&mut observed.gangs, "llm-0", |child| label_and_annotate(&mut child.metadata)),
        &expect![[r#"
        gangs: patch PodGang llm-0 {"metadata":{"annotations":{"example.com/owner":null},"labels":{"example.com/owner":null},"resourceVersion":"7"}}
    "#]],
    );
}
