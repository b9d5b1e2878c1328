//! Pods that the cluster refuses: the condition has the server's words, each reason once.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::{Expect, expect};
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::Target;
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;

use super::world;
use crate::clique::plan::plan;
use crate::clique::status::status;

const QUOTA: &str = "is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
const LIMITS: &str = "is forbidden: maximum cpu usage per Container is 1, but limit is 2";
const SECURITY: &str =
    "is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true (container \"main\" must set it)";

/// Creates of these pods, each refused with the words behind its name.
fn creates(refused: &[(&str, &str)]) -> ExecutionResult {
    let outcome = |(name, words): &(&str, &str)| {
        let target = Target { name: (*name).to_owned(), ..Target::of(&*world("{pods: [{i: 0, name: a}]}").pods[0]) };
        let failure = ApiError::new(403, "Forbidden", format!("pods \"{name}\" {words}"));
        StepResult { stage: "pods", verb: "create", target, result: Err(failure) }
    };
    ExecutionResult { steps: refused.iter().map(outcome).collect() }
}

#[track_caller]
fn check(row: &str, refused: &[(&str, &str)], expected: &Expect) {
    let seen = world(row);
    let told = status(&seen, &plan(&seen), &creates(refused), Timestamp::from_second(1).unwrap());
    let available = told.conditions.iter().find(|condition| condition.type_ == "Available").unwrap();
    expected.assert_eq(&format!("{} {}: {}\n", available.status, available.reason, available.message));
}

#[test]
fn the_same_reason_is_given_once_whatever_the_names_and_numbers() {
    check(
        "{replicas: 3, gang: []}",
        &[("llm-0-a-1", QUOTA), ("llm-0-a-2", &QUOTA.replace("used: pods=2", "used: pods=1"))],
        &expect![[r#"
            False FailedCreate: 0 of 3 pods ready, 3 to be created; the API server refused to create 2 Pods: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2
        "#]],
    );
}

#[test]
fn no_refusal_hides_another() {
    check(
        "{replicas: 3, gang: []}",
        &[("llm-0-a-1", QUOTA), ("llm-0-a-2", LIMITS), ("llm-0-a-3", SECURITY), ("llm-0-a-4", "is invalid: spec: x")],
        &expect![[r#"
            False FailedCreate: 0 of 3 pods ready, 3 to be created; the API server refused to create 1 Pod: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2; to create 1 Pod: maximum cpu usage per Container is 1, but limit is 2; to create 1 Pod: violates PodSecurity "restricted:latest": runAsNonRoot != true (container "main" must set it); and for 1 more reason
        "#]],
    );
}

#[test]
fn what_is_refused_beyond_what_is_needed_is_told_though_the_clique_is_available() {
    check(
        "{replicas: 2, minAvailable: 1, gang: [a], pods: [{i: 0, name: a, ready: true}]}",
        &[("llm-0-a-1", QUOTA)],
        &expect![[r#"
            True MinimumReplicasAvailable: 1 of 2 pods ready, 1 to be created; the API server refused to create 1 Pod: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2
        "#]],
    );
}

#[test]
fn who_was_refused_asks_for_one_pod_until_one_is_let_in() {
    let creates = |row: &str| plan(&world(row)).steps().filter(|step| step.verb() == "create").count();
    assert_eq!(creates("{replicas: 5, gang: []}"), 5);
    assert_eq!(creates("{replicas: 5, gang: [], starved: true}"), 1);
    assert_eq!(creates("{replicas: 5, gang: [a], starved: true, pods: [{i: 0, name: a}]}"), 1);
}
