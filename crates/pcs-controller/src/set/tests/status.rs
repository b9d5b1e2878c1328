//! What a set and its gangs are told.

use grove_api_types::core::PodCliqueStatus;
use grove_runtime::executor::Done;
use k8s_openapi::jiff::Timestamp;

use super::{SET, carried_out, change, new};
use crate::set::observed::Observed;
use crate::set::status;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// Every clique reports this many pods, scheduled and ready.
fn with_pods(mut seen: Observed, scheduled: i32, ready: i32) -> Observed {
    for name in seen.cliques.keys().cloned().collect::<Vec<_>>() {
        change(&mut seen.cliques, &name, |clique| {
            let hash =
                clique.metadata.labels.as_ref().and_then(|labels| labels.get("grove.io/pod-template-hash")).cloned();
            clique.status = Some(PodCliqueStatus {
                scheduled_replicas: scheduled,
                ready_replicas: ready,
                current_pod_template_hash: hash,
                ..PodCliqueStatus::default()
            });
        });
    }
    seen
}

#[test]
fn a_set_without_ready_pods_is_not_available() {
    let status = status::of_set(&carried_out(new(SET)), &Done::default(), at(1));
    assert_eq!((status.replicas, status.available_replicas, status.updated_replicas), (Some(2), 0, 0));
    assert_eq!(
        (status.conditions[0].status.as_str(), status.conditions[0].message.as_str()),
        ("False", "0 of 2 replicas are available")
    );
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn a_set_whose_cliques_have_their_minimum_is_available() {
    let status = status::of_set(&with_pods(carried_out(new(SET)), 1, 1), &Done::default(), at(1));
    assert_eq!((status.available_replicas, status.updated_replicas), (2, 2));
    assert_eq!(status.conditions[0].reason, "SufficientReplicasAvailable");
}

#[test]
fn a_status_that_says_the_same_is_the_same_later() {
    let mut seen = with_pods(carried_out(new(SET)), 1, 1);
    let first = status::of_set(&seen, &Done::default(), at(1));
    seen.set.status = Some(first.clone());
    assert_eq!(status::of_set(&seen, &Done::default(), at(99)), first);
}

#[test]
fn fields_that_nothing_acts_on_are_named_until_they_are_gone() {
    let delayed = SET.replace("    cliques:", "    terminationDelay: 1h\n    cliques:");
    let mut seen = new(&delayed);
    let told = status::of_set(&seen, &Done::default(), at(1));
    let ignored = told.conditions.iter().find(|condition| condition.type_ == "FieldsIgnored").expect("the condition");
    assert_eq!((ignored.status.as_str(), ignored.reason.as_str()), ("True", "FieldsNotActedOn"));
    assert!(ignored.message.contains(": spec.template.terminationDelay; "), "{}", ignored.message);
    seen = Observed { set: seen.set, ..new(SET) };
    seen.set.status = Some(told);
    let told = status::of_set(&seen, &Done::default(), at(2));
    assert!(told.conditions.iter().all(|condition| condition.type_ != "FieldsIgnored"));
}
