//! What a set and its gangs are told.

use grove_api_types::v1alpha1::PodCliqueStatus;
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
    assert_eq!(status::of_set(&seen, &Done::default(), at(-99)), first, "the clock was set back");
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

#[test]
fn pods_of_an_older_template_are_told_of_until_they_are_gone() {
    let changed = SET.replace("{name: prefill, labels: {team: x}", "{name: prefill, labels: {team: z}");
    let old = with_pods(carried_out(new(SET)), 1, 1);
    let mut seen = Observed { cliques: old.cliques.clone(), ..new(&changed) };
    let told = status::of_set(&seen, &Done::default(), at(1));
    let outdated = told.conditions.iter().find(|condition| condition.type_ == "PodsOutdated").expect("the condition");
    assert_eq!((outdated.status.as_str(), outdated.reason.as_str()), ("True", "TemplateChanged"));
    assert_eq!(
        outdated.message,
        "pods of llm-0-prefill, llm-1-prefill were made from an older template; this version replaces no running pods; delete \
         them to have them made from the current template"
    );
    seen.set.status = Some(told.clone());
    assert_eq!(status::of_set(&seen, &Done::default(), at(2)), told);
    let current = with_pods(carried_out(new(&changed)), 1, 1);
    seen.cliques = current.cliques;
    let told = status::of_set(&seen, &Done::default(), at(3));
    assert!(told.conditions.iter().all(|condition| condition.type_ != "PodsOutdated"), "{told:?}");
}

#[test]
fn a_set_that_implies_more_than_any_cluster_holds_is_left_as_it_is() {
    let mut seen = with_pods(carried_out(new(SET)), 1, 1);
    seen.set.status = Some(status::of_set(&seen, &Done::default(), at(1)));
    seen.set.spec.replicas = 100_000;
    for clique in &mut seen.set.spec.template.cliques {
        clique.spec.replicas = 100_000;
    }
    assert_eq!(
        crate::set::plan::plan(&seen).to_string(),
        "wait: TooManyObjects there would be more than 100000 objects, pods and what is made for them; nothing is created or \
         deleted until replicas of the set, of its scaling groups or of its cliques are fewer\n"
    );
    let told = status::of_set(&seen, &Done::default(), at(2));
    let available = told.conditions.iter().find(|condition| condition.type_ == "Available").expect("the condition");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "TooManyObjects"));
    assert_eq!((told.replicas, told.available_replicas), (Some(100_000), 2));
    seen.set.status = Some(told.clone());
    assert_eq!(status::of_set(&seen, &Done::default(), at(3)), told);
}
