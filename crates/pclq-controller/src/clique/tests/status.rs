//! The status of a clique.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::pod_group::{PodGroupRef, PodGroupSpec};
use grove_controller::executor::ExecutionResult;
use grove_controller::status_limiter::StatusChange;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use serde_json::{Value, json};

use super::{PodCliqueStatus, rejected_create, snapshot, status};
use crate::clique::status::status_change;

fn status_of(row: &str, result: &ExecutionResult, second: i64) -> PodCliqueStatus {
    let observed = snapshot(row);
    status(&observed, result, Timestamp::from_second(second).unwrap())
}

fn rejected(message: &str) -> ExecutionResult {
    let step = rejected_create("llm-0-decode-a", message);
    ExecutionResult { steps: vec![step.clone(), step] }
}

#[track_caller]
fn check(row: &str, result: &ExecutionResult, expected: &Expect) {
    let status = status_of(row, result, 100);
    let mut lines = format!(
        "replicas {:?} ready {} updated {} gated {} scheduled {} generation {:?} hashes {:?} {:?}\n",
        status.replicas,
        status.ready_replicas,
        status.updated_replicas,
        status.schedule_gated_replicas,
        status.scheduled_replicas,
        status.observed_generation,
        status.current_pod_clique_set_generation_hash,
        status.current_pod_template_hash,
    );
    for condition in &status.conditions {
        assert_eq!(condition.observed_generation, Some(4));
        let Condition { type_, status, reason, message, .. } = condition;
        writeln!(lines, "{type_}={status} {reason}: {message}").unwrap();
    }
    for error in &status.last_errors {
        writeln!(lines, "error {}: {}", error.code, error.description).unwrap();
    }
    expected.assert_eq(&lines);
}

#[test]
fn a_new_clique_is_in_breach_and_counts_its_missing_pods() {
    check(
        "{replicas: 2, minAvailable: 2, gang: []}",
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(0) ready 0 updated 0 gated 0 scheduled 0 generation Some(4) hashes None Some("1new")
        Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 to be created
        MinAvailableBreached=True ScheduledReplicasBelowMinAvailable: Scheduled replicas (0) below MinAvailable (2)
        PodCliqueScheduled=False InsufficientScheduledPods: Insufficient scheduled pods. expected at least: 2, found: 0
    "#]],
    );
}

#[test]
fn a_ready_clique_is_available() {
    let row = "{replicas: 1, gang: [a], annotations: {grove.io/podcliqueset-generation-hash: 1gen}, \
               pods: [{i: 0, name: a, ready: true, container: {name: main, ready: true, started: true, restartCount: 3}}]}";
    check(
        row,
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(1) ready 1 updated 1 gated 0 scheduled 1 generation Some(4) hashes Some("1gen") Some("1new")
        Available=True MinimumReplicasAvailable: 1 of 1 pods ready
        MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 1
        PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 1
    "#]],
    );
}

#[test]
fn the_message_counts_the_pods_by_state() {
    let row = "{replicas: 5, minAvailable: 2, gang: [], pods: [{i: 0, name: a, ready: true}, {i: 1, name: b, gated: true}, \
               {i: 2, name: c}, {i: 3, name: d, bound: true}]}";
    check(
        row,
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(4) ready 1 updated 4 gated 1 scheduled 2 generation Some(4) hashes None Some("1new")
        Available=False MinimumReplicasUnavailable: 1 of 5 pods ready, 1 to be created, 1 gated, 1 not scheduled, 1 not ready
        MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 2, found: 2
        PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 2, found: 2
    "#]],
    );
}

#[test]
fn the_message_names_the_pods_that_wait_for_the_scheduler() {
    let message = |row: &str, pod_group: &str| {
        let mut observed = snapshot(row);
        if let Some(gang) = observed.gang.object.as_mut().map(Arc::make_mut) {
            let spec = PodGroupSpec { min_count: 3, ..PodGroupSpec::default() };
            let group = PodGroupRef { name: pod_group.to_owned(), spec };
            gang.metadata.annotations = Some(group.annotations());
        }
        let status = status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
        let condition = status.conditions.into_iter().find(|condition| condition.type_ == "Available");
        condition.expect("a condition").message
    };
    let long = "x".repeat(400);
    let without_group = format!(
        "{{replicas: 5, minAvailable: 1, gang: [a, b, c, d, e], pods: [{{i: 0, name: a, ready: true}}, \
         {{i: 1, name: c, unschedulable: other}}, {{i: 2, name: b, unschedulable: {long}}}, {{i: 3, name: d}}, {{i: 4, name: e, gated: true}}]}}"
    );
    expect!["1 of 5 pods ready, 1 gated, 3 not scheduled; not scheduled: llm-0-decode-b, llm-0-decode-c, llm-0-decode-d: the scheduler reports: X…"].assert_eq(&message(&without_group, "llm-0-1").replace(&"x".repeat(300), "X"));
    let with_group = "{replicas: 1, gang: [a], pods: [{i: 0, name: a, group: llm-0-1.7}]}";
    expect!["0 of 1 pods ready, 1 not scheduled; not scheduled: llm-0-decode-a: PodGroup llm-0-1.7 demands 3 pods"]
        .assert_eq(&message(with_group, "llm-0-1.7"));
    expect!["0 of 1 pods ready, 1 not scheduled; not scheduled: llm-0-decode-a: PodGroup llm-0-1.7 is not the current one of the gang"].assert_eq(&message(with_group, "llm-0-1.8"));
    let with_report = "{replicas: 2, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b, unschedulable: no node}]}";
    expect!["0 of 2 pods ready, 2 not scheduled; not scheduled: llm-0-decode-b, llm-0-decode-a: the scheduler reports: no node"].assert_eq(&message(with_report, "llm-0-1"));
    let unknown = "{replicas: 1, gang: [a], pods: [{i: 0, name: a}]}";
    expect!["0 of 1 pods ready, 1 not scheduled"].assert_eq(&message(unknown, "llm-0-1"));
}

#[test]
fn the_message_names_the_channel_for_which_a_pod_with_a_compute_domain_waits() {
    let message = |claim: &str, report: &str| {
        let row = format!(
            "{{replicas: 1, gang: [a], podSpec: {{resourceClaims: [{{name: {claim}}}]}}, pods: [{{i: 0, name: a, unschedulable: \"{report}\"}}]}}"
        );
        let status = status_of(&row, &ExecutionResult::default(), 100);
        status.conditions.into_iter().find(|condition| condition.type_ == "Available").expect("a condition").message
    };
    let no_device = "0/3 nodes are available: 3 cannot allocate all claims.";
    expect!["0 of 1 pods ready, 1 not scheduled; not scheduled: llm-0-decode-a: the scheduler reports: 0/3 nodes are available: 3 cannot allocate all claims.; a node has one IMEX channel, so it runs one pod with the claim mnnvl-claim"].assert_eq(&message("mnnvl-claim", no_device));
    for (claim, report) in [("mnnvl-claim", "3 Insufficient cpu"), ("other", no_device)] {
        let message = message(claim, report);
        assert!(message.contains(report) && !message.contains("channel"), "{message}");
    }
}

#[test]
fn a_missing_template_of_a_compute_domain_is_the_reason_why_a_pod_waits() {
    let available = |pod: &str| {
        let row = format!("{{replicas: 1, gang: [a], missingDomain: llm-0, pods: [{{i: 0, name: a, {pod}}}]}}");
        let status = status_of(&row, &ExecutionResult::default(), 100);
        let available = status.conditions.into_iter().find(|condition| condition.type_ == "Available");
        available.map(|condition| (condition.reason, condition.message)).expect("a condition")
    };
    let (reason, message) = available("bound: false");
    assert_eq!(reason, "ComputeDomainsPending");
    assert_eq!(
        message,
        "0 of 1 pods ready, 1 not scheduled; not scheduled: llm-0-decode-a: ResourceClaimTemplate llm-0 does not exist; NVIDIA's driver \
         creates it with the next ComputeDomain, after the last pod that uses a deleted one has ended"
    );
    assert_eq!(available("bound: true, ready: true").0, "MinimumReplicasAvailable");
}

#[test]
fn starting_pods_are_no_breach_and_crashed_pods_are() {
    let row =
        |container: &str| format!("{{gang: [a], pods: [{{i: 0, name: a, bound: true, container: {container}}}]}}");
    let breach = |container: &str| {
        let status = status_of(&row(container), &ExecutionResult::default(), 1);
        let breach = status.conditions.into_iter().find(|condition| condition.type_ == "MinAvailableBreached").unwrap();
        format!("{} {}", breach.status, breach.reason)
    };
    assert_eq!(breach("{name: main, ready: false, started: false}"), "False SufficientReadyPods");
    assert_eq!(breach("{name: main, ready: false, started: true}"), "True InsufficientReadyPods");
    assert_eq!(breach("{name: main, ready: false, started: false, restartCount: 1}"), "True InsufficientReadyPods");
}

#[test]
fn a_rejected_create_is_a_condition_with_the_message_of_the_api_server() {
    check(
        "{replicas: 2, gang: []}",
        &rejected("pods \"llm-0-decode-a\" is forbidden: exceeded quota: pods=1"),
        &expect![[r#"
            replicas Some(0) ready 0 updated 0 gated 0 scheduled 0 generation None hashes None Some("1new")
            Available=False FailedCreate: 0 of 2 pods ready, 2 to be created; the API server rejected the create of 2 Pods: exceeded quota: pods=1; raise the quota or release some of it; Grove then creates the missing objects
            MinAvailableBreached=True ScheduledReplicasBelowMinAvailable: Scheduled replicas (0) below MinAvailable (1)
            PodCliqueScheduled=False InsufficientScheduledPods: Insufficient scheduled pods. expected at least: 1, found: 0
            error ERR_CREATE_POD: could not create Pod llm-0-decode-a: 403 Forbidden: pods "llm-0-decode-a" is forbidden: exceeded quota: pods=1
        "#]],
    );
}

#[test]
fn a_missing_gang_is_in_the_condition() {
    check(
        "{replicas: 1, pods: [{i: 0, name: a}]}",
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(1) ready 0 updated 1 gated 0 scheduled 0 generation Some(4) hashes None Some("1new")
        Available=False PodGangNotFound: 0 of 1 pods ready, 1 not scheduled; PodGang llm-0 does not exist
        MinAvailableBreached=True ScheduledReplicasBelowMinAvailable: Scheduled replicas (0) below MinAvailable (1)
        PodCliqueScheduled=False InsufficientScheduledPods: Insufficient scheduled pods. expected at least: 1, found: 0
    "#]],
    );
    check(
        "{replicas: 1, pods: [{i: 0, name: a, ready: true}]}",
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(1) ready 1 updated 1 gated 0 scheduled 1 generation Some(4) hashes None Some("1new")
        Available=True MinimumReplicasAvailable: 1 of 1 pods ready; PodGang llm-0 does not exist
        MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 1
        PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 1
    "#]],
    );
}

#[test]
fn the_hashes_change_when_all_pods_are_updated() {
    let row = "{replicas: 1, gang: [a], annotations: {grove.io/podcliqueset-generation-hash: 1gen}, \
               status: {currentPodTemplateHash: 1old, currentPodCliqueSetGenerationHash: 1then}, \
               pods: [{i: 0, name: a, ready: true, hash: 1old}]}";
    check(
        row,
        &ExecutionResult::default(),
        &expect![[r#"
        replicas Some(1) ready 1 updated 0 gated 0 scheduled 1 generation Some(4) hashes Some("1then") Some("1old")
        Available=True MinimumReplicasAvailable: 1 of 1 pods ready
        MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 1
        PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 1
    "#]],
    );
}

#[test]
fn last_errors_have_one_entry_per_reason_and_end_with_the_next_success() {
    let mut observed = snapshot("{replicas: 2, gang: []}");
    let at = |second| Timestamp::from_second(second).unwrap();
    let first = status(&observed, &rejected("quota, used: 1"), at(1));
    observed.clique.status = Some(first.clone());
    let second = status(&observed, &rejected("quota, used: 2"), at(2));
    assert_eq!(second.last_errors.len(), 1);
    assert_eq!(second.last_errors[0].observed_at, first.last_errors[0].observed_at);
    assert_eq!(second.last_errors[0].description, "could not create Pod llm-0-decode-a: 403 Forbidden: quota, used: 2");
    observed.clique.status = Some(second.clone());
    let third = status(&observed, &ExecutionResult::default(), at(3));
    assert!(third.last_errors.is_empty());
    observed.clique.status = Some(third.clone());
    assert_eq!(status(&observed, &ExecutionResult::default(), at(4)), third);
}

#[test]
fn the_time_of_the_last_scheduling_stays_when_pods_are_lost() {
    let mut observed = snapshot("{replicas: 1, gang: [a], pods: [{i: 0, name: a, ready: true}]}");
    let at = |second| Timestamp::from_second(second).unwrap();
    let first = status(&observed, &ExecutionResult::default(), at(7));
    assert_eq!(first.last_scheduled.as_ref().map(|time| time.0), Some(at(7)));
    observed.clique.status = Some(first.clone());
    assert_eq!(status(&observed, &ExecutionResult::default(), at(8)), first);
    let mut lost = snapshot("{replicas: 1}");
    assert_eq!(status(&lost, &ExecutionResult::default(), at(8)).last_scheduled, None);
    lost.clique.status = Some(first.clone());
    assert_eq!(status(&lost, &ExecutionResult::default(), at(9)).last_scheduled, first.last_scheduled);
}

#[test]
fn only_standalone_cliques_have_a_pod_selector() {
    let selector = |row: &str| status_of(row, &ExecutionResult::default(), 1).hpa_pod_selector;
    let expected =
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=llm,grove.io/podclique=llm-0-decode";
    assert_eq!(selector("").as_deref(), Some(expected));
    assert_eq!(selector("{labels: {app.kubernetes.io/component: pcsg-podclique}}"), None);
}

#[test]
fn changes_of_availability_scheduling_and_completeness_are_significant() {
    let change = |row: &str, before: Option<&str>| {
        let of = |row: &str| {
            let observed = snapshot(row);
            let status = status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
            (observed, status)
        };
        let before = before.map(|row| of(row).1);
        let (mut observed, after) = of(row);
        observed.clique.status = before;
        status_change(&observed, &after)
    };
    let none = "{replicas: 2, minAvailable: 2}";
    let created = "{replicas: 2, minAvailable: 2, pods: [{i: 0, name: a}, {i: 1, name: b}]}";
    let bound = "{replicas: 2, minAvailable: 2, pods: [{i: 0, name: a, bound: true}, {i: 1, name: b, bound: true}]}";
    let ready = "{replicas: 2, minAvailable: 2, pods: [{i: 0, name: a, ready: true}, {i: 1, name: b, ready: true}]}";
    assert_eq!(change(created, None), StatusChange::Minor);
    assert_eq!(change(created, Some(none)), StatusChange::Minor);
    assert_eq!(change(bound, Some(created)), StatusChange::Minor);
    assert_eq!(
        change(&bound.replacen('{', "{scaledCliques: true, ", 1), Some(created)),
        StatusChange::Significant,
        "the pods of the scaled cliques are gated"
    );
    assert_eq!(change(ready, Some(bound)), StatusChange::Significant);
    assert_eq!(change(bound, Some(ready)), StatusChange::Significant, "it is no longer available");
    assert_eq!(change(created, Some(bound)), StatusChange::Significant, "it is no longer scheduled");
}

#[test]
fn while_an_update_replaces_pods_only_its_end_is_significant() {
    let progress = |ended: Value| {
        let progress = json!({ "updateStartedAt": "1970-01-01T00:00:00Z", "updateEndedAt": ended,
            "podCliqueSetGenerationHash": "g", "podTemplateHash": "h" });
        serde_json::from_value(progress).unwrap()
    };
    let of = |row: &str, ended: Value| {
        let mut status = status_of(row, &ExecutionResult::default(), 1);
        // During an update it is unknown.
        status.conditions.retain(|condition| condition.type_ != "MinAvailableBreached");
        PodCliqueStatus { update_progress: progress(ended), ..status }
    };
    let change = |before: PodCliqueStatus, after: PodCliqueStatus| {
        let mut observed = snapshot("{replicas: 2}");
        observed.clique.status = Some(before);
        status_change(&observed, &after)
    };
    let ready = "{replicas: 2, minAvailable: 2, pods: [{i: 0, name: a, ready: true}, {i: 1, name: b, ready: true}]}";
    let replaced = "{replicas: 2, minAvailable: 2, pods: [{i: 0, name: a}, {i: 1, name: b, ready: true}]}";
    let ended = || json!("1970-01-01T00:00:01Z");
    assert_eq!(change(of(ready, Value::Null), of(replaced, Value::Null)), StatusChange::Minor);
    assert_eq!(change(of(ready, ended()), of(replaced, ended())), StatusChange::Significant, "no update replaces it");
    assert_eq!(change(of(replaced, Value::Null), of(ready, ended())), StatusChange::Significant);
}

#[test]
fn a_status_that_opens_the_gates_of_scaled_cliques_is_significant_below_the_minimum_of_the_clique() {
    let change = |replicas: i32, scheduled: i32| {
        let bound = "pods: [{i: 0, name: a, bound: true}]";
        let mut observed =
            snapshot(&format!("{{replicas: {replicas}, minAvailable: 3, scaledCliques: true, {bound}}}"));
        let after = status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(after.scheduled_replicas, 1);
        observed.clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..after.clone() });
        status_change(&observed, &after)
    };
    assert_eq!(change(1, 0), StatusChange::Significant, "the only pod was scheduled");
    assert_eq!(change(2, 0), StatusChange::Minor, "the second pod is not scheduled");
    assert_eq!(change(1, 1), StatusChange::Minor, "the gates were open before");
    assert_eq!(change(2, 2), StatusChange::Significant, "a pod is no longer scheduled");
}
