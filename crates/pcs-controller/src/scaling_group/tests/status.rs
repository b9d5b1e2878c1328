//! The status of a scaling group.

use expect_test::{Expect, expect};
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus, UpdateStrategyType};
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, set_status_condition};
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::Target;
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{change, executed, new, plan, status_of};
use crate::scaling_group::observed::Observed;
use crate::scaling_group::status::status;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// Sets the status of a clique.
fn report(observed: &mut Observed, name: &str, scheduled: bool, ready: i32) {
    change(observed, name, |clique| {
        let label = |key: &str| clique.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let mut status = PodCliqueStatus {
            ready_replicas: ready,
            current_pod_template_hash: label("grove.io/pod-template-hash"),
            current_pod_clique_set_generation_hash: clique.annotations().get(labels::GENERATION_HASH).cloned(),
            ..PodCliqueStatus::default()
        };
        for (type_, holds) in [("PodCliqueScheduled", scheduled), ("MinAvailableBreached", !scheduled)] {
            let (reason, message) = ("Row".to_owned(), String::new());
            let status_of = ConditionStatus::from(holds);
            let verdict = ConditionUpdate { type_, status: status_of, reason, message, observed_generation: None };
            set_status_condition(&mut status.conditions, verdict, at(0));
        }
        clique.status = Some(status);
    });
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let status = status_of(observed, at(1));
    let counts = (status.replicas, status.scheduled_replicas, status.available_replicas, status.updated_replicas);
    let conditions =
        status.conditions.iter().map(|c| format!("{} {} {}: {}\n", c.type_, c.status, c.reason, c.message));
    let hash = status.current_pod_clique_set_generation_hash.is_some();
    expected.assert_eq(&format!("{counts:?} current {hash}\n{}", conditions.collect::<String>()));
}

#[test]
fn a_group_is_in_breach_while_its_cliques_have_no_status() {
    check(
        &executed(new(2)),
        &expect![[r"
        (Some(2), 0, 0, 0) current false
        Available False MinimumReplicasUnavailable: 0 of 2 replicas are available
        MinAvailableBreached True InsufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (0) below MinAvailable (1)
    "]],
    );
}

#[test]
fn a_replica_is_counted_if_all_its_cliques_are() {
    let mut observed = executed(new(2));
    report(&mut observed, "m-0-g-0-p", true, 1);
    report(&mut observed, "m-0-g-0-d", true, 2);
    report(&mut observed, "m-0-g-1-p", true, 1);
    report(&mut observed, "m-0-g-1-d", true, 1);
    check(
        &observed,
        &expect![[r"
        (Some(2), 2, 1, 1) current true
        Available True MinimumReplicasAvailable: 1 of 2 replicas are available
        MinAvailableBreached False SufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (2) meets MinAvailable (1)
    "]],
    );
}

#[test]
fn the_observed_generation_advances_after_the_pods_are_new() {
    let mut observed = executed(new(1));
    observed.group.metadata.generation = Some(4);
    for name in ["m-0-g-0-p", "m-0-g-0-d"] {
        assert_eq!(status_of(&observed, at(1)).observed_generation, None, "the pods of {name} are unknown");
        report(&mut observed, name, true, 2);
    }
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(4));
    observed.group.status.get_or_insert_default().observed_generation = Some(3);
    change(&mut observed, "m-0-g-0-d", |clique| {
        clique.status.get_or_insert_default().current_pod_template_hash = Some("another".to_owned());
    });
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(3));
    let strategy = &mut observed.set.as_mut().expect("the set").spec.update_strategy;
    strategy.get_or_insert_default().type_ = UpdateStrategyType::OnDelete;
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(4));
    observed.set = None;
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(4), "a group without its set has no template");
}

#[test]
fn the_observed_generation_waits_for_failed_writes() {
    let mut observed = executed(new(1));
    observed.group.metadata.generation = Some(4);
    observed.group.status.get_or_insert_default().observed_generation = Some(3);
    for name in ["m-0-g-0-p", "m-0-g-0-d"] {
        report(&mut observed, name, true, 2);
    }
    let clique = observed.children.get::<PodClique>("m-0-g-0-d").expect("a clique");
    let (target, failure) = (Target::of(&**clique), ApiError::new(403, "Forbidden", "exceeded quota"));
    let step = StepResult::new("cliques", "patch", target.clone(), Err(failure.clone()));
    let failed = ExecutionResult { steps: vec![step] };
    assert_eq!(status(&observed, &plan(&observed), &failed, at(1)).observed_generation, Some(3));
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(4));
    observed.backed_off.children.push((target, failure));
    assert_eq!(status_of(&observed, at(1)).observed_generation, Some(3));
}

#[test]
fn a_missing_gang_is_in_the_available_condition() {
    let mut observed = new(1);
    observed.active_gangs.clear();
    check(
        &observed,
        &expect![[r"
        (Some(1), 0, 0, 0) current false
        Available False PodGangNotFound: 0 of 1 replicas are available; PodGang m-0 does not exist
        MinAvailableBreached True InsufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (0) below MinAvailable (1)
    "]],
    );
}

#[test]
fn a_group_with_zero_replicas_is_available_and_in_breach() {
    check(
        &executed(new(0)),
        &expect![[r"
        (Some(0), 0, 0, 0) current true
        Available True MinimumReplicasAvailable: 0 of 0 replicas are available
        MinAvailableBreached True InsufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (0) below MinAvailable (1)
    "]],
    );
}

#[test]
fn the_selector_selects_one_pod_of_each_replica() {
    let observed = executed(new(1));
    let status = status_of(&observed, at(1));
    let expected = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=m,\
                    grove.io/podcliquescalinggroup=m-0-g,grove.io/podcliquescalinggroup-pod-index=0";
    assert_eq!(status.selector.as_deref(), Some(expected));
}

#[test]
fn an_unchanged_status_keeps_its_timestamps() {
    let mut observed = executed(new(2));
    let first = status_of(&observed, at(1));
    observed.group.status = Some(first.clone());
    assert_eq!(status_of(&observed, at(99)), first);
}
