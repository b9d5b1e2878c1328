//! Rejected creates of pods: the condition contains the messages of the API server, each reason once.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::{Expect, expect};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::SlowStart;
use k8s_openapi::jiff::Timestamp;

use super::{plan, rejected_create, snapshot, status};

const QUOTA: &str = "is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
const LIMITS: &str = "is forbidden: maximum cpu usage per Container is 1, but limit is 2";
const SECURITY: &str =
    "is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (container \"main\" must set it)";

/// The results of rejected creates: each with the name of the pod and the message of the API server.
fn creates(rejected: &[(&str, &str)]) -> ExecutionResult {
    let step = |(name, message): &(&str, &str)| rejected_create(name, &format!("pods \"{name}\" {message}"));
    ExecutionResult { steps: rejected.iter().map(step).collect() }
}

#[track_caller]
fn check(row: &str, rejected: &[(&str, &str)], expected: &Expect) {
    let observed = snapshot(row);
    let status = status(&observed, &creates(rejected), Timestamp::from_second(1).unwrap());
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").unwrap();
    expected.assert_eq(&format!("{} {}: {}\n", available.status, available.reason, available.message));
}

#[test]
fn rejections_that_differ_in_names_and_numbers_are_one_reason() {
    check(
        "{replicas: 3, gang: []}",
        &[("llm-0-a-1", QUOTA), ("llm-0-a-2", &QUOTA.replace("used: pods=2", "used: pods=1"))],
        &expect![[r"
            False FailedCreate: 0 of 3 pods ready, 3 to be created; the API server rejected the create of 2 Pods: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2; raise the quota or release some of it; Grove then creates the missing objects
        "]],
    );
}

#[test]
fn every_reason_of_rejected_creates_is_in_the_condition() {
    check(
        "{replicas: 3, gang: []}",
        &[("llm-0-a-1", QUOTA), ("llm-0-a-2", LIMITS), ("llm-0-a-3", SECURITY), ("llm-0-a-4", "is invalid: spec: x")],
        &expect![[r#"
            False FailedCreate: 0 of 3 pods ready, 3 to be created; the API server rejected the create of 1 Pod: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2; raise the quota or release some of it; Grove then creates the missing objects; the create of 1 Pod: maximum cpu usage per Container is 1, but limit is 2; the create of 1 Pod: violates PodSecurity "restricted:latest": runAsNonRoot != true (container "main" must set it); and 1 more reason
        "#]],
    );
}

#[test]
fn rejected_creates_are_in_the_message_of_an_available_clique() {
    check(
        "{replicas: 2, minAvailable: 1, gang: [a], pods: [{i: 0, name: a, ready: true}]}",
        &[("llm-0-a-1", QUOTA)],
        &expect![[r"
            True MinimumReplicasAvailable: 1 of 2 pods ready, 1 to be created; the API server rejected the create of 1 Pod: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2; raise the quota or release some of it; Grove then creates the missing objects
        "]],
    );
}

#[test]
fn creates_begin_with_a_batch_and_with_one_pod_after_a_rejection() {
    let slow_start = |row: &str| {
        let plan = plan(&snapshot(row));
        let stage = plan.stages.last().expect("a stage");
        assert!(stage.steps.iter().all(|step| step.verb() == "create"));
        (stage.steps.len(), stage.slow_start)
    };
    let all = (5, Some(SlowStart::INITIAL));
    assert_eq!(slow_start("{replicas: 5, gang: []}"), all);
    assert_eq!(
        slow_start("{replicas: 5, gang: [], retry: true}"),
        (5, Some(SlowStart { alternate: Some(1), ..SlowStart::RETRY }))
    );
    let one_exists = "{replicas: 5, gang: [a], retry: true, pods: [{i: 0, name: a}]}";
    assert_eq!(slow_start(one_exists), (4, Some(SlowStart { alternate: Some(1), ..SlowStart::RETRY })));
}

#[test]
fn during_the_backoff_no_pod_is_created_at_any_index_and_deletes_continue() {
    super::check(
        "{replicas: 3, gang: [a, b], backedOff: [x], pods: [{i: 0, name: a, phase: Failed}, {i: 3, name: b}]}",
        &expect![[r"
            pods: delete Pod ~-b
            pods: delete Pod ~-a
            requeue: after 8s
        "]],
    );
}

#[test]
fn no_pod_is_created_in_a_terminating_namespace_and_the_clique_reports_it() {
    let missing = "{replicas: 2, gang: [], namespaceTerminating: true}";
    super::check(
        missing,
        &expect![[r"
            wait: NamespaceTerminating nothing is created, because the namespace is terminating
        "]],
    );
    super::check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a}], namespaceTerminating: true}",
        &expect![["nothing to do\n"]],
    );
    check(
        missing,
        &[],
        &expect![[r"
            False NamespaceTerminating: 0 of 2 pods ready, 2 to be created; nothing is created, because the namespace is terminating
        "]],
    );
}

#[test]
fn patches_and_deletes_of_pods_continue_in_a_terminating_namespace() {
    super::check(
        "{replicas: 3, gang: [a, b], namespaceTerminating: true, pods: [{i: 0, name: a, phase: Failed}, {i: 3, name: b}]}",
        &expect![[r"
            pods: delete Pod ~-b
            pods: delete Pod ~-a
            wait: NamespaceTerminating nothing is created, because the namespace is terminating
        "]],
    );
}

#[test]
fn a_rejected_create_is_in_the_status_until_the_backoff_ends() {
    let row = "{replicas: 3, gang: [], backedOff: [x-1, x-2]}";
    check(
        row,
        &[],
        &expect![[r"
            False FailedCreate: 0 of 3 pods ready, 3 to be created; the API server rejected the create of 2 Pods: exceeded quota: small; raise the quota or release some of it; Grove then creates the missing objects
        "]],
    );
    let status = status(&snapshot(row), &ExecutionResult::default(), Timestamp::from_second(1).unwrap());
    assert_eq!(status.observed_generation, None, "the desired pods are not created");
    let errors: Vec<_> = status.last_errors.iter().map(|error| (&*error.code, &*error.description)).collect();
    expect![[r#"
        [
            (
                "ERR_CREATE_POD",
                "could not create Pod llm-0-decode-x-1: 403 Forbidden: pods \"llm-0-decode-x-1\" is forbidden: exceeded quota: small",
            ),
        ]
    "#]]
    .assert_debug_eq(&errors);
}
