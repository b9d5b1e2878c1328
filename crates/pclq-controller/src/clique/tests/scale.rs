//! The pods that are created and deleted.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use grove_controller::plan::Step;
use grove_runtime::caches::UnreadableObject;
use serde_json::json;

use super::{check, plan, snapshot};
use crate::clique::plan::delete_children;

#[test]
fn a_new_clique_creates_all_its_pods() {
    check(
        "{replicas: 3, gang: []}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        pods: create Pod ~-vk7tm
        pods: create Pod ~-6vmjz
    "]],
    );
}

#[test]
fn zero_replicas_mean_no_pods() {
    check(
        "{replicas: 0, gang: []}",
        &expect![[r"
        nothing to do
    "]],
    );
    check(
        "{replicas: 0, gang: [a], pods: [{i: 0, name: a}]}",
        &expect![[r"
            pods: delete Pod ~-a
        "]],
    );
}

#[test]
fn scale_out_fills_the_lowest_free_indices() {
    check(
        "{replicas: 4, gang: [a, c], pods: [{i: 0, name: a}, {i: 2, name: c}]}",
        &expect![[r"
        pods: create Pod ~-vk7tm
        pods: create Pod ~-fw7hg
    "]],
    );
}

#[test]
fn scale_in_removes_the_highest_indices() {
    let pods = "pods: [{i: 0, name: z}, {i: 1, name: b}, {i: 2, name: a}, {i: 10, name: m}]";
    check(
        &format!("{{replicas: 2, gang: [a, b, m, z], {pods}}}"),
        &expect![[r"
            pods: delete Pod ~-m
            pods: delete Pod ~-a
        "]],
    );
}

#[test]
fn a_free_index_is_filled_and_the_highest_pod_deleted() {
    check(
        "{replicas: 2, gang: [a, c], pods: [{i: 0, name: a}, {i: 2, name: c}]}",
        &expect![[r"
            pods: delete Pod ~-c
            pods: create Pod ~-vk7tm
        "]],
    );
}

#[test]
fn a_terminating_pod_frees_its_index_at_once() {
    check(
        "{replicas: 2, gang: [], pods: [{i: 0, name: a, terminating: true}, {i: 1, name: b}]}",
        &expect![[r"
        pods: create Pod ~-jjjnq
    "]],
    );
}

#[test]
fn failed_evicted_and_succeeded_pods_are_deleted_and_replaced_in_one_plan() {
    check(
        "{replicas: 1, gang: [], pods: [{i: 0, name: a, phase: Failed}]}",
        &expect![[r"
        pods: delete Pod ~-a
        pods: create Pod ~-jjjnq
    "]],
    );
    check(
        "{replicas: 1, gang: [], pods: [{i: 0, name: a, phase: Succeeded}]}",
        &expect![[r"
        pods: delete Pod ~-a
        pods: create Pod ~-jjjnq
    "]],
    );
}

#[test]
fn a_failed_pod_that_is_terminating_is_not_deleted_again() {
    check(
        "{replicas: 1, gang: [], pods: [{i: 0, name: a, phase: Failed, terminating: true}]}",
        &expect![[r"
        pods: create Pod ~-jjjnq
    "]],
    );
}

#[test]
fn the_older_of_two_pods_with_one_index_stays() {
    check(
        "{replicas: 1, gang: [b], pods: [{i: 0, name: a, at: 5}, {i: 0, name: b, at: 3}]}",
        &expect![[r"
        pods: delete Pod ~-a
    "]],
    );
}

#[test]
fn the_hostname_determines_the_index() {
    check(
        "{replicas: 2, gang: [], pods: [{host: llm-0-decode-1, i: 7, name: a}, {host: nonsense, name: b}]}",
        &expect![[r#"
            pods: delete Pod ~-b
            labels: patch Pod ~-a {"metadata":{"labels":{"grove.io/podclique-pod-index":"1"}}}
            pods: create Pod ~-ml5tj
        "#]],
    );
}

#[test]
fn a_terminating_clique_deletes_its_pods() {
    let pods = "[{i: 0, name: a}, {i: 1, name: b, terminating: true}, {i: 2, name: c, phase: Failed}]";
    check(
        &format!("{{replicas: 3, terminating: true, gang: [a], pods: {pods}}}"),
        &expect![[r"
        pods: delete Pod ~-a
        pods: delete Pod ~-c
    "]],
    );
    let row = "terminating: true, finalizers: [foregroundDeletion], gang: [a], pods: [{i: 0, name: a, version: '7'}]";
    check(
        &format!("{{{row}}}"),
        &expect![[r"
        pods: delete Pod ~-a at version 7
    "]],
    );
    check(
        &format!("{{orphansPods: true, {row}}}"),
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn a_terminating_clique_loses_the_finalizer_of_the_go_operator() {
    let row = "finalizers: [example.com/hold, grove.io/podclique.grove.io], gang: [a], pods: [{i: 0, name: a}]";
    check(
        &format!("{{terminating: true, {row}}}"),
        &expect![[r#"
            finalizers: patch PodClique ~ [{"op":"test","path":"/metadata/uid","value":"clique-uid"},{"op":"test","path":"/metadata/finalizers/1","value":"grove.io/podclique.grove.io"},{"op":"remove","path":"/metadata/finalizers/1"}]
            pods: delete Pod ~-a
        "#]],
    );
    check(
        &format!("{{{row}}}"),
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn a_rejected_write_of_one_pod_blocks_no_other_write() {
    for row in [
        "{replicas: 2, gang: [], pods: [{i: 0, name: a, phase: Failed}, {i: 1, name: b}]}",
        "{terminating: true, finalizers: [grove.io/podclique.grove.io], pods: [{i: 0, name: a}]}",
    ] {
        let plan = plan(&snapshot(row));
        assert!(plan.stages.len() == 2 && plan.has_independent_stages, "{plan}");
    }
}

#[test]
fn a_complete_clique_causes_no_write() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b}]}",
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn a_clique_without_its_labels_waits() {
    check(
        "{labels: {grove.io/podgang: null}}",
        &expect![[r"
        wait: LabelMissing no pods are created until the PodClique has a valid label grove.io/podgang
    "]],
    );
    check(
        "{labels: {grove.io/podcliqueset-replica-index: first}}",
        &expect![[r"
        wait: LabelMissing no pods are created until the PodClique has a valid label grove.io/podcliqueset-replica-index
    "]],
    );
}

#[test]
fn a_clique_stored_above_the_limit_of_replicas_waits() {
    let pods = "[{i: 0, name: a}, {i: 1, name: b, phase: Failed}]";
    for replicas in [100_001, 2_000_000_000] {
        let plan = plan(&snapshot(&format!("{{replicas: {replicas}, gang: [], pods: {pods}}}"))).to_string();
        let expected = format!(
            "wait: TooManyObjects Grove creates and deletes no pods while spec.replicas is {replicas}: the PodClique would have {replicas} \
             pods and ResourceClaims, and may have at most 100000; lower spec.replicas\n"
        );
        assert_eq!(plan, expected);
    }
}

#[test]
fn a_large_clique_is_created_in_several_plans() {
    let observed = snapshot("{replicas: 100000, gang: []}");
    let plan = plan(&observed);
    assert_eq!(plan.steps().count(), 2048);
    assert_eq!((plan.continue_after, plan.requeue_after), (Some(Duration::from_secs(1)), None));
    // A step contains neither the labels nor the spec of its pod.
    let bytes: usize = plan.steps().map(stored_bytes).sum();
    assert!(bytes < 100 * 2048, "{bytes} bytes");
}

#[test]
fn the_pods_of_a_terminating_or_deleted_clique_are_deleted_in_several_plans() {
    let mut observed = snapshot("{terminating: true}");
    let pods = (0..3000).map(|index| super::pod(&json!({ "i": index, "name": format!("p{index:04}") })));
    observed.pods = pods.collect();
    assert_eq!(plan(&observed).steps().count(), 2048);
    let claims = vec![Arc::default(); 3];
    let next = Some(Duration::from_secs(1));
    for (pods, steps, next) in [(3000, 2048, next), (2048, 2048, next), (2000, 2003, None), (0, 3, None)] {
        let plan = delete_children(&observed.pods[..pods], &claims);
        assert_eq!((plan.steps().count(), plan.continue_after), (steps, next));
    }
}

fn stored_bytes(step: &Step) -> usize {
    let Step::Create(create) = step else { panic!("{step}") };
    create.object.stored_bytes() + create.target.name.len()
}

#[test]
fn a_large_scale_in_deletes_the_highest_indices_first_in_several_plans() {
    let mut observed = snapshot("{replicas: 0, gang: []}");
    let pods = (0..3000).map(|index| super::pod(&json!({ "i": index, "name": format!("p{index:04}") })));
    observed.pods = pods.collect();
    let plan = plan(&observed);
    let names: Vec<_> = plan.steps().map(|step| step.target().name.clone()).collect();
    assert_eq!((names.len(), names[0].as_str()), (2048, "llm-0-decode-p2999"));
}

#[test]
fn no_pod_is_created_while_a_pod_of_the_clique_cannot_be_decoded() {
    let mut observed = snapshot("{replicas: 3, gang: [a, m], pods: [{i: 0, name: a}, {i: 7, name: m}]}");
    let mut unreadable = UnreadableObject { reason: "missing field `name`".to_owned(), ..UnreadableObject::default() };
    unreadable.metadata.name = Some("b".to_owned());
    observed.unreadable_pods = vec![Arc::new(unreadable)];
    let plan = plan(&observed);
    let creates = plan.steps().filter(|step| step.verb() == "create").count();
    assert_eq!(creates, 0, "{plan}");
    let waiting: Vec<_> = plan.waiting.iter().map(ToString::to_string).collect();
    assert_eq!(
        waiting,
        [
            "UnreadableObject no pods are created until Pod b is corrected or deleted: it could not be decoded: missing field `name`"
        ]
    );
}
