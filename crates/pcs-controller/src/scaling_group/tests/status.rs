//! What a group says of itself.

use expect_test::{Expect, expect};
use grove_api_types::v1alpha1::PodCliqueStatus;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, set_status_condition};
use k8s_openapi::jiff::Timestamp;

use super::{carried_out, change, new, status};
use crate::scaling_group::observed::Observed;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// The clique says this of its pods.
fn says(observed: &mut Observed, name: &str, scheduled: bool, ready: i32) {
    change(observed, name, |clique| {
        let label = |key: &str| clique.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let mut status = PodCliqueStatus {
            ready_replicas: ready,
            current_pod_template_hash: label("grove.io/pod-template-hash"),
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
    let told = status(observed, at(1));
    let counts = (told.replicas, told.scheduled_replicas, told.available_replicas, told.updated_replicas);
    let conditions = told.conditions.iter().map(|c| format!("{} {} {}: {}\n", c.type_, c.status, c.reason, c.message));
    let hash = told.current_pod_clique_set_generation_hash.is_some();
    expected.assert_eq(&format!("{counts:?} current {hash}\n{}", conditions.collect::<String>()));
}

#[test]
fn a_group_whose_cliques_say_nothing_yet_is_in_breach() {
    check(
        &carried_out(new(2)),
        &expect![[r"
        (Some(2), 0, 0, 0) current false
        Available False MinimumReplicasUnavailable: 0 of 2 replicas are available
        MinAvailableBreached True InsufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (0) below MinAvailable (1)
    "]],
    );
}

#[test]
fn a_replica_counts_when_all_its_cliques_do() {
    let mut observed = carried_out(new(2));
    says(&mut observed, "m-0-g-0-p", true, 1);
    says(&mut observed, "m-0-g-0-d", true, 2);
    says(&mut observed, "m-0-g-1-p", true, 1);
    says(&mut observed, "m-0-g-1-d", true, 1);
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
fn a_group_that_waits_for_a_gang_says_so() {
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
fn a_group_scaled_to_nothing_is_available_and_in_breach() {
    check(
        &carried_out(new(0)),
        &expect![[r"
        (Some(0), 0, 0, 0) current true
        Available True MinimumReplicasAvailable: 0 of 0 replicas are available
        MinAvailableBreached True InsufficientAvailablePodCliqueScalingGroupReplicas: PCSG replicas not in breach (0) below MinAvailable (1)
    "]],
    );
}

#[test]
fn its_pods_are_selected_by_the_groups_label() {
    let observed = carried_out(new(1));
    let told = status(&observed, at(1));
    expect![
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=m,grove.io/podcliquescalinggroup=m-0-g"
    ]
    .assert_eq(told.selector.as_deref().unwrap_or_default());
}

#[test]
fn a_status_that_says_the_same_is_the_same_later() {
    let mut observed = carried_out(new(2));
    let told = |observed: &Observed, seconds| status(observed, at(seconds));
    let first = told(&observed, 1);
    observed.group.status = Some(first.clone());
    assert_eq!(told(&observed, 99), first);
}
