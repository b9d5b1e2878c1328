//! Updates of the pods of a clique.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use grove_controller::executor::ExecutionResult;
use k8s_openapi::jiff::Timestamp;

use super::{check, snapshot, status};

/// The turn of the clique, whose status shows that the update has begun.
const TURN: &str = "annotations: {grove.io/podcliqueset-generation-hash: 1gen, grove.io/update-turn: 1gen}";
const BEGUN: &str = "status: {readyReplicas: 0, updatedReplicas: 0, scheduleGatedReplicas: 0, scheduledReplicas: 0, updateProgress: \
                     {podCliqueSetGenerationHash: 1gen, podTemplateHash: 1new, updateStartedAt: '2026-01-01T00:00:00Z'}}";

/// A clique of three pods with these states: `O` is an outdated ready pod, `o` an outdated one that is not ready, `N` and `n` are new.
fn row(pods: &str, fields: &str) -> String {
    let pod = |(index, state): (usize, char)| {
        let hash = if state.eq_ignore_ascii_case(&'o') { "1old" } else { "1new" };
        format!(
            "{{i: {index}, name: p{index}, version: '7', hash: {hash}, bound: true, ready: {}}}",
            state.is_uppercase()
        )
    };
    let pods: Vec<_> = pods.chars().enumerate().filter(|(_, state)| *state != '-').map(pod).collect();
    format!("{{gang: [], replicas: 3, pods: [{}], {fields}}}", pods.join(", "))
}

#[track_caller]
fn check_pods(pods: &str, fields: &str, expected: &Expect) {
    check(&row(pods, &format!("{TURN}, {BEGUN}, {fields}")), expected);
}

#[test]
fn one_pod_is_replaced_after_the_other() {
    check_pods(
        "OOO",
        "minAvailable: 2",
        &expect![[r"
        pods: delete Pod ~-p0 at version 7
    "]],
    );
    check_pods(
        "nOO",
        "minAvailable: 1",
        &expect![[r"
        nothing to do
    "]],
    );
    check_pods(
        "NOO",
        "minAvailable: 1",
        &expect![[r"
        pods: delete Pod ~-p1 at version 7
    "]],
    );
}

/// A pod that crashed before is ready again.
#[test]
fn a_ready_pod_is_not_replaced_before_its_turn() {
    check_pods(
        "OoO",
        "minAvailable: 2",
        &expect![[r"
        pods: delete Pod ~-p1 at version 7
    "]],
    );
    check_pods(
        "ooo",
        "minAvailable: 3",
        &expect![[r"
        pods: delete Pod ~-p0 at version 7
        pods: delete Pod ~-p1 at version 7
        pods: delete Pod ~-p2 at version 7
    "]],
    );
}

#[test]
fn one_pod_at_a_time_is_replaced_if_all_are_needed() {
    check_pods(
        "OOO",
        "minAvailable: 3",
        &expect![[r"
        pods: delete Pod ~-p0 at version 7
    "]],
    );
    check_pods(
        "NnO",
        "minAvailable: 3",
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn a_replica_of_a_scaling_group_is_replaced_as_a_whole() {
    let member = "labels: {app.kubernetes.io/component: pcsg-podclique}";
    check_pods(
        "OnO",
        member,
        &expect![[r"
        pods: delete Pod ~-p0 at version 7
        pods: delete Pod ~-p1 at version 7
        pods: delete Pod ~-p2 at version 7
    "]],
    );
}

/// Otherwise a change back could look like an update that has ended, while a pod is being replaced.
#[test]
fn no_pod_is_replaced_before_the_status_shows_the_update() {
    check(
        &row("OOO", TURN),
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn without_a_turn_the_user_replaces_the_pods() {
    for annotations in [
        "annotations: {grove.io/podcliqueset-generation-hash: 1gen}",
        "annotations: {grove.io/podcliqueset-generation-hash: 1gen, grove.io/update-turn: 1other}",
    ] {
        check(
            &row("Ooo", &format!("{annotations}, {BEGUN}")),
            &expect![[r"
            nothing to do
        "]],
        );
    }
}

fn progress(row: &str) -> String {
    let status = status(&snapshot(row), &ExecutionResult::default(), Timestamp::from_second(100).unwrap());
    let progress = status.update_progress.expect("the progress");
    let breached = status.conditions.iter().find(|condition| condition.type_ == "MinAvailableBreached");
    format!(
        "{} {} ended {} MinAvailableBreached {} current {:?}",
        progress.pod_clique_set_generation_hash,
        progress.pod_template_hash,
        progress.update_ended_at.is_some(),
        breached.map(|condition| condition.status.clone()).unwrap_or_default(),
        status.current_pod_template_hash,
    )
}

#[test]
fn an_update_ends_when_all_pods_are_new_and_enough_of_them_are_ready() {
    let current = "status: {readyReplicas: 3, updatedReplicas: 3, scheduleGatedReplicas: 0, scheduledReplicas: 3, \
                   currentPodTemplateHash: 1old}";
    let of = |pods: &str, fields: &str| progress(&row(pods, &format!("{TURN}, minAvailable: 2, {fields}")));
    let mut text = String::new();
    for (pods, fields) in
        [("OOO", current), ("NNO", BEGUN), ("Nnn", BEGUN), ("NNn", BEGUN), ("NN-", BEGUN), ("---", BEGUN)]
    {
        let _ = writeln!(text, "{pods}: {}", of(pods, fields));
    }
    let _ = writeln!(text, "new clique: {}", of("---", "terminating: false"));
    let annotations = "annotations: {grove.io/podcliqueset-generation-hash: 1gen}";
    let _ = writeln!(text, "without a turn: {}", progress(&row("OOO", &format!("{annotations}, {current}"))));
    expect![[r#"
        OOO: 1gen 1new ended false MinAvailableBreached Unknown current Some("1old")
        NNO: 1gen 1new ended false MinAvailableBreached Unknown current None
        Nnn: 1gen 1new ended false MinAvailableBreached Unknown current None
        NNn: 1gen 1new ended true MinAvailableBreached False current Some("1new")
        NN-: 1gen 1new ended true MinAvailableBreached False current Some("1new")
        ---: 1gen 1new ended false MinAvailableBreached Unknown current None
        new clique: 1gen 1new ended true MinAvailableBreached True current Some("1new")
        without a turn: 1gen 1new ended true MinAvailableBreached False current Some("1old")
    "#]]
    .assert_eq(&text);
}
