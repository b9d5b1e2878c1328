//! Pods that ended: which are replaced at once, and which wait.

use expect_test::{Expect, expect};
use grove_controller::executor::ExecutionResult;
use k8s_openapi::jiff::Timestamp;

use super::{check, snapshot, status};

#[test]
fn a_pod_that_ended_soon_after_it_started_stays_until_its_replacement_is_due() {
    let pods = "[{i: 0, name: a, phase: Failed}, {i: 1, name: b, phase: Failed}, {i: 2, name: c, phase: Succeeded}]";
    check(
        &format!("{{replicas: 3, gang: [], delayed: [0, 2], pods: {pods}}}"),
        &expect![[r"
            pods: delete Pod ~-b
            pods: create Pod ~-lpll5
            wait: PodReplacementBackoff pods that ended soon after they started are replaced with exponential backoff, from 10 s to 5 min; indices: 0, 2
            requeue: after 20s
        "]],
    );
}

#[test]
fn an_ended_pod_that_shares_a_claim_is_deleted_before_its_replacement_is_due() {
    let row = |claims: &str| {
        let pods = "[{i: 0, name: a, phase: Failed}, {i: 1, name: b}]";
        format!("{{replicas: 2, gang: [b], delayed: [0], pods: {pods}, claims: {claims}}}")
    };
    let shared = &expect![[r"
        pods: delete Pod ~-a
        wait: PodReplacementBackoff pods that ended soon after they started are replaced with exponential backoff, from 10 s to 5 min; indices: 0
        requeue: after 20s
    "]];
    check(&row("{own: [{t: gpus}], existing: [{name: all-gpus}]}"), shared);
    check(&row("{references: [{name: llm-all-gpus}]}"), shared);
    check(
        &row("{own: [{t: gpus, per: true}], existing: [{name: 0-gpus}, {name: 1-gpus}]}"),
        &expect![[r"
        wait: PodReplacementBackoff pods that ended soon after they started are replaced with exponential backoff, from 10 s to 5 min; indices: 0
        requeue: after 20s
    "]],
    );
}

#[test]
fn a_delayed_index_that_has_a_live_pod_or_is_scaled_in_delays_nothing() {
    check(
        "{replicas: 1, gang: [b], delayed: [0, 1], pods: [{i: 0, name: a, phase: Failed}, {i: 0, name: b}, {i: 1, name: c, phase: Failed}]}",
        &expect![[r"
            pods: delete Pod ~-a
            pods: delete Pod ~-c
        "]],
    );
}

#[track_caller]
fn check_condition(row: &str, expected: &Expect) {
    let status = status(&snapshot(row), &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").unwrap();
    expected.assert_eq(&format!("{} {}: {}", available.status, available.reason, available.message));
}

#[test]
fn the_condition_contains_the_reason_for_a_delayed_replacement() {
    check_condition(
        "{replicas: 1, gang: [], delayed: [0], pods: [{i: 0, name: a, phase: Failed}]}",
        &expect![
            "False PodReplacementBackoff: 0 of 1 pods ready, 1 to be created; pods that ended soon after they started are replaced with exponential backoff, from 10 s to 5 min; indices: 0"
        ],
    );
}
