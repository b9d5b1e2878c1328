//! Updates of the pods of a clique.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use grove_controller::executor::ExecutionResult;
use grove_controller::status_limiter::StatusChange;
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::jiff::Timestamp;

use super::{NOW, check, snapshot, status};
use crate::update::{has_begun, may_be_next_turn};

/// The turn of the clique, whose status shows that the update has begun.
const TURN: &str = "annotations: {grove.io/podcliqueset-generation-hash: 1gen, grove.io/update-turn: 1gen}";
const BEGUN: &str = "status: {readyReplicas: 0, updatedReplicas: 0, scheduleGatedReplicas: 0, scheduledReplicas: 0, updateProgress: \
                     {podCliqueSetGenerationHash: 1gen, podTemplateHash: 1new, updateStartedAt: '2026-01-01T00:00:00Z'}}";

/// A clique of three pods with these states: `O` is an outdated ready pod, `o` an outdated one that is not ready, `N` and `n` are new. `J` is new, and
/// has been ready for five seconds. `x` is new, and the kubelet cannot start it; `u` is new, and the scheduler does not bind it. The container of `R` and `r` was restarted; `C` is
/// an outdated ready pod whose container was restarted, and `Y` one that is younger.
fn row(pods: &str, fields: &str) -> String {
    let pod = |(index, state): (usize, char)| {
        let hash = if matches!(state, 'O' | 'o' | 'C' | 'Y') { "1old" } else { "1new" };
        let (ready, bound) = (state.is_uppercase(), state != 'u');
        let special = match state {
            'J' => ", readyAt: '2026-01-01T23:59:55Z'",
            'x' => ", container: {name: main, state: {waiting: {reason: CrashLoopBackOff, message: back-off 10s}}}",
            'R' => ", readyAt: '2026-01-01T23:59:55Z', container: {name: main, ready: true, restartCount: 3}",
            'r' => ", container: {name: main, ready: false, restartCount: 3}",
            'Y' => ", at: 5",
            'C' => ", container: {name: main, ready: true, restartCount: 3}",
            'u' => ", unschedulable: 0/3 nodes are available",
            _ => "",
        };
        format!("{{i: {index}, name: p{index}, version: '7', hash: {hash}, bound: {bound}, ready: {ready}{special}}}")
    };
    let pods: Vec<_> = pods.chars().enumerate().filter(|(_, state)| *state != '-').map(pod).collect();
    format!("{{gang: [], replicas: 3, pods: [{}], {fields}}}", pods.join(", "))
}

/// The turn with these bounds.
fn turn_with(bounds: &str) -> String {
    format!("{}, grove.io/update-bounds: '{bounds}'}}", TURN.trim_end_matches('}'))
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

/// Also one of which a container crashed before: the Go operator replaces it at once.
#[test]
fn a_ready_pod_is_not_replaced_before_its_turn() {
    check_pods(
        "CoC",
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

/// As in the Go operator.
#[test]
fn the_oldest_ready_pod_is_replaced_first() {
    check_pods(
        "YYO",
        "minAvailable: 1",
        &expect![[r"
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

#[test]
fn the_user_sets_the_bounds_and_pauses() {
    let check = |pods: &str, bounds: &str, expected: Expect| {
        check(&row(pods, &format!("{}, {BEGUN}, minAvailable: 1", turn_with(bounds))), &expected);
    };
    check(
        "OOO",
        r#"{"v":1,"maxUnavailable":2}"#,
        expect![[r"
        pods: delete Pod ~-p0 at version 7
        pods: delete Pod ~-p1 at version 7
    "]],
    );
    check(
        "nOO",
        r#"{"v":1,"maxUnavailable":"67%"}"#,
        expect![[r"
        pods: delete Pod ~-p1 at version 7
    "]],
    );
    check(
        "Ooo",
        r#"{"v":1,"paused":true}"#,
        expect![[r"
        nothing to do
    "]],
    );
    check(
        "OOO",
        r#"{"v":9}"#,
        expect![[r"
        nothing to do
    "]],
    );
}

/// The next plan is due when the pod has been ready for long enough. An outdated pod serves at once.
#[test]
fn a_new_pod_must_be_ready_for_some_time() {
    let check = |bounds: &str, expected: Expect| {
        check(&row("JOO", &format!("{}, {BEGUN}, minAvailable: 1", turn_with(bounds))), &expected);
    };
    check(
        r#"{"v":1,"minReadySeconds":5}"#,
        expect![[r"
        pods: delete Pod ~-p1 at version 7
    "]],
    );
    check(
        r#"{"v":1,"minReadySeconds":6}"#,
        expect![[r"
        requeue: after 1s
    "]],
    );
    let outdated = row(
        "OOO",
        &format!("{}, {BEGUN}, minAvailable: 2", turn_with(r#"{"v":1,"maxUnavailable":3,"minReadySeconds":600}"#)),
    );
    let outdated = outdated.replace("ready: true", "ready: true, readyAt: '2026-01-01T23:59:55Z'");
    super::check(
        &outdated,
        &expect![[r"
        pods: delete Pod ~-p0 at version 7
    "]],
    );
    let ended = |min_ready: i32| {
        let bounds = format!(r#"{{"v":1,"minReadySeconds":{min_ready}}}"#);
        progress(&row("JJJ", &format!("{}, {BEGUN}, minAvailable: 3", turn_with(&bounds)))).contains("ended true")
    };
    assert_eq!((ended(5), ended(6)), (true, false));
}

#[test]
fn the_condition_says_what_the_update_waits_for() {
    let began = |at: &str| {
        let progressed = BEGUN.replace("updateStartedAt:", &format!("lastProgressedAt: '{at}', updateStartedAt:"));
        progressed.replace("readyReplicas: 0, updatedReplicas: 0", "readyReplicas: 2, updatedReplicas: 1")
    };
    let deadline = turn_with(r#"{"v":1,"progressDeadline":"10m"}"#);
    let (before, after) = (began("2026-01-01T23:50:01Z"), began("2026-01-01T23:50:00Z"));
    let mut text = String::new();
    for (pods, turn, status) in [
        ("OOO", TURN, BEGUN),
        ("NNN", TURN, BEGUN),
        ("OON", &turn_with(r#"{"v":1,"paused":true}"#), BEGUN),
        ("xOO", TURN, BEGUN),
        ("rOO", TURN, BEGUN),
        ("uOO", TURN, BEGUN),
        ("nOO", &turn_with("[]"), BEGUN),
        ("nOO", &deadline, &before),
        ("nOO", &deadline, &after),
        ("xOO", &deadline, &after),
    ] {
        let observed = snapshot(&row(pods, &format!("{turn}, {status}")));
        let status = super::status(&observed, &ExecutionResult::default(), observed.now);
        let condition = status.conditions.iter().find(|condition| condition.type_ == "UpdateInProgress");
        let condition = condition.map(|it| format!("{} {}: {}", it.status, it.reason, it.message));
        let _ = writeln!(text, "{pods}: {}", condition.as_deref().unwrap_or("no condition"));
    }
    expect![[r"
        OOO: True Progressing: the pods are being replaced
        NNN: no condition
        OON: True Paused: the update is paused; set spec.updateStrategy.rollingUpdate.paused of the set to false to continue it
        xOO: True Blocked: Pod llm-0-decode-p0 does not start: container main: CrashLoopBackOff: back-off 10s
        rOO: True Blocked: Pod llm-0-decode-p0 is not ready: container main ended and was restarted
        uOO: True Blocked: not scheduled: llm-0-decode-p0: the scheduler reports: 0/3 nodes are available
        nOO: True Blocked: annotation grove.io/update-bounds cannot be decoded: it is not a JSON object; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
        nOO: True Progressing: the pods are being replaced
        nOO: Unknown ProgressDeadlineExceeded: no progress for the progressDeadline of 10m; Pod llm-0-decode-p0 is not ready
        xOO: Unknown ProgressDeadlineExceeded: no progress for the progressDeadline of 10m; Pod llm-0-decode-p0 does not start: container main: CrashLoopBackOff: back-off 10s
    "]].assert_eq(&text);
    let next = |status: &str| super::plan(&snapshot(&row("nOO", &format!("{deadline}, {status}")))).requeue_after;
    assert_eq!((next(&before), next(&after)), (Some(Duration::from_secs(1)), None));
}

/// A client that polls sees at once that an update is blocked.
#[test]
fn another_reason_is_a_significant_change() {
    let progressing = "conditions: [{type: UpdateInProgress, status: 'True', reason: Progressing, message: m, \
                       lastTransitionTime: '2026-01-01T00:00:00Z'}], updateProgress:";
    let change = |pods: &str| {
        let observed = snapshot(&row(pods, &format!("{TURN}, {}", BEGUN.replace("updateProgress:", progressing))));
        let new = status(&observed, &ExecutionResult::default(), observed.now);
        crate::clique::status::status_change(&observed, &new)
    };
    assert_eq!((change("nnn"), change("xnn")), (StatusChange::Minor, StatusChange::Significant));
}

/// The generation of the set has another hash, because the template of another clique has changed.
#[test]
fn the_begin_of_another_update_is_a_significant_change() {
    let status_of_earlier = BEGUN.replace("1gen", "1earlier");
    let observed = snapshot(&row("Nnn", &format!("{TURN}, {status_of_earlier}")));
    let new = status(&observed, &ExecutionResult::default(), observed.now);
    assert_eq!(crate::clique::status::status_change(&observed, &new), StatusChange::Significant);
}

/// A new pod is created or ready, or the user has continued the update. A pod whose container is restarted again and again is no progress.
#[test]
fn progress_moves_the_deadline() {
    let paused = "conditions: [{type: UpdateInProgress, status: 'True', reason: Paused, message: m, lastTransitionTime: \
                  '2026-01-01T00:00:00Z'}], ";
    let last = |pods: &str, more: &str| {
        let status = BEGUN.replace("updateProgress:", &format!("{more}updateProgress:"));
        let status = status.replace("updateStartedAt:", "lastProgressedAt: '2026-01-01T00:00:00Z', updateStartedAt:");
        let observed = snapshot(&row(pods, &format!("{TURN}, {status}")));
        let status = super::status(&observed, &ExecutionResult::default(), observed.now);
        status.update_progress.unwrap().last_progressed_at.unwrap().0.to_string()
    };
    let before = "2026-01-01T00:00:00Z";
    assert_eq!(last("nOO", ""), before);
    assert_eq!(last("JOO", ""), "2026-01-01T23:59:55Z");
    assert_eq!(last("ROO", ""), before);
    assert_eq!(last("nOO", paused), NOW);
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

#[test]
fn a_pod_that_becomes_ready_in_an_update_triggers_its_clique_at_once() {
    let is_triggered = |fields: &str, [before, after]: [&str; 2]| {
        let [old, new] = [before, after].map(|pods| snapshot(&row(pods, fields)));
        let delta = Delta { old: Some(Arc::clone(&old.pods[0])), new: Some(Arc::clone(&new.pods[0])) };
        may_be_next_turn(&Cache::from_objects([new.clique.clone()]), &delta)
    };
    let updating = format!("{TURN}, {BEGUN}");
    assert!(is_triggered(&updating, ["n", "N"]));
    assert!(is_triggered(&updating, ["N", "n"]));
    assert!(!is_triggered(&updating, ["N", "N"]));
    assert!(!is_triggered(TURN, ["n", "N"]), "the update has not begun");
}

#[test]
fn the_begin_of_an_update_in_the_status_triggers_the_clique_at_once() {
    let [waiting, updating] = [TURN.to_owned(), format!("{TURN}, {BEGUN}")]
        .map(|fields| Some(Arc::new(snapshot(&row("O", &fields)).clique.clone())));
    assert!(has_begun(&Delta { old: waiting.clone(), new: updating.clone() }));
    assert!(!has_begun(&Delta { old: updating.clone(), new: updating.clone() }));
    assert!(!has_begun(&Delta { old: updating, new: waiting }));
}
