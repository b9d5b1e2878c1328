//! The status of a set.

use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueStatus, PodCliqueUpdateProgress};
use grove_controller::executor::ExecutionResult;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{SET, change, executed, new, plan, status_of};
use crate::set::observed::Observed;
use crate::tests::GROUPED;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// Every clique reports these numbers of scheduled and ready pods.
fn with_pods(mut observed: Observed, scheduled: i32, ready: i32) -> Observed {
    for name in observed.children.by_name_mut::<PodClique>().keys().cloned().collect::<Vec<_>>() {
        change::<PodClique>(&mut observed, &name, |clique| {
            let hash =
                clique.metadata.labels.as_ref().and_then(|labels| labels.get("grove.io/pod-template-hash")).cloned();
            clique.status = Some(PodCliqueStatus {
                scheduled_replicas: scheduled,
                ready_replicas: ready,
                current_pod_template_hash: hash,
                current_pod_clique_set_generation_hash: clique.annotations().get(labels::GENERATION_HASH).cloned(),
                ..PodCliqueStatus::default()
            });
        });
    }
    observed
}

#[test]
fn a_set_without_ready_pods_is_not_available() {
    let status = status_of(&executed(new(SET)), &ExecutionResult::default(), at(1));
    assert_eq!((status.replicas, status.available_replicas, status.updated_replicas), (Some(2), 0, 0));
    assert_eq!(
        (status.conditions[0].status.as_str(), status.conditions[0].message.as_str()),
        ("False", "0 of 2 replicas are available")
    );
    assert_eq!(status.observed_generation, None, "no clique has a status");
}

#[test]
fn a_set_is_available_if_each_clique_has_its_minimum_of_pods() {
    let status = status_of(&with_pods(executed(new(SET)), 1, 1), &ExecutionResult::default(), at(1));
    assert_eq!((status.available_replicas, status.updated_replicas), (2, 2));
    assert_eq!(status.conditions[0].reason, "MinimumReplicasAvailable");
}

#[test]
fn an_unchanged_status_keeps_its_timestamps() {
    let mut observed = with_pods(executed(new(SET)), 1, 1);
    let first = status_of(&observed, &ExecutionResult::default(), at(1));
    observed.set.status = Some(first.clone());
    assert_eq!(status_of(&observed, &ExecutionResult::default(), at(99)), first);
    assert_eq!(status_of(&observed, &ExecutionResult::default(), at(-99)), first, "the clock went backwards");
}

#[test]
fn unsupported_fields_are_in_the_status_until_they_are_removed() {
    let delayed = SET.replace("    cliques:", "    terminationDelay: 1h\n    cliques:");
    let mut observed = new(&delayed);
    let status = status_of(&observed, &ExecutionResult::default(), at(1));
    let unsupported =
        status.conditions.iter().find(|condition| condition.type_ == "UnsupportedFields").expect("the condition");
    assert_eq!((unsupported.status.as_str(), unsupported.reason.as_str()), ("True", "FieldsNotSupported"));
    assert!(unsupported.message.contains(": spec.template.terminationDelay; "), "{}", unsupported.message);
    observed = Observed { set: observed.set, ..new(SET) };
    observed.set.status = Some(status);
    let status = status_of(&observed, &ExecutionResult::default(), at(2));
    assert!(status.conditions.iter().all(|condition| condition.type_ != "UnsupportedFields"));
}

/// Dynamo's operator regards a restart as completed once `observedGeneration` is the generation.
#[test]
fn the_observed_generation_advances_after_the_pods_are_new() {
    let changed = SET.replace("{name: prefill, labels: {team: x}", "{name: prefill, labels: {team: z}");
    let on_delete = changed.replace("spec:\n  replicas", "spec:\n  updateStrategy: {type: OnDelete}\n  replicas");
    assert_ne!(on_delete, changed);
    let old = with_pods(executed(new(SET)), 1, 1);
    let observe = |set: &str, children: &Observed| {
        let mut observed = Observed { children: children.children.clone(), ..new(set) };
        observed.set.metadata.generation = Some(4);
        observed.set.status.get_or_insert_default().observed_generation = Some(3);
        status_of(&observed, &ExecutionResult::default(), at(1)).observed_generation
    };
    assert_eq!(observe(&changed, &old), Some(3), "the patches of the cliques succeeded, and their pods are old");
    assert_eq!(observe(&on_delete, &old), Some(4));
    assert_eq!(observe(&changed, &with_pods(executed(new(&changed)), 1, 1)), Some(4));
    assert_eq!(
        observe(&changed, &executed(new(&changed))),
        Some(3),
        "the pods of a clique without a status are unknown"
    );
    let mut one_missing = with_pods(executed(new(&changed)), 1, 1);
    one_missing.children.by_name_mut::<PodClique>().remove("llm-1-prefill").expect("a clique");
    assert_eq!(
        observe(&changed, &one_missing),
        Some(4),
        "it is created from the current template, or cannot be created"
    );
}

/// After a change from `OnDelete`, the pods stay old, and there is nothing left to do for the generation.
#[test]
fn the_observed_generation_does_not_wait_for_pods_that_the_user_replaces() {
    let mut observed = with_pods(executed(new(SET)), 1, 1);
    observed.set.metadata.generation = Some(4);
    observed.set.status.get_or_insert_default().observed_generation = Some(3);
    let generation = observed.revision.hashes().generation_hash.clone();
    for has_ended in [false, true] {
        change::<PodClique>(&mut observed, "llm-0-prefill", |clique| {
            let hash = clique.labels()[labels::TEMPLATE_HASH].clone();
            let status = clique.status.as_mut().expect("a status");
            status.current_pod_template_hash = Some("1old".to_owned());
            status.update_progress = Some(PodCliqueUpdateProgress {
                update_ended_at: has_ended.then(|| Time(at(0))),
                pod_clique_set_generation_hash: generation.clone(),
                pod_template_hash: hash,
                ..PodCliqueUpdateProgress::default()
            });
        });
        let status = status_of(&observed, &ExecutionResult::default(), at(1));
        assert_eq!(status.observed_generation, Some(if has_ended { 4 } else { 3 }));
        assert_eq!(status.updated_replicas, 1, "the pods of the other replica are new");
    }
}

#[test]
fn the_observed_generation_waits_for_the_pods_of_groups() {
    let mut observed = with_pods(executed(new(GROUPED)), 1, 1);
    observed.set.status.get_or_insert_default().observed_generation = Some(2);
    let status = |observed: &Observed| status_of(observed, &ExecutionResult::default(), at(1));
    let current = status(&observed);
    assert_eq!(current.observed_generation, Some(2), "the pods of a group without a status are unknown");
    for (reported, generation) in [(Some("another".to_owned()), 2), (current.current_generation_hash, 3)] {
        change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| {
            group.status.get_or_insert_default().current_pod_clique_set_generation_hash = reported;
        });
        assert_eq!(status(&observed).observed_generation, Some(generation));
    }
}

#[test]
fn a_set_above_the_object_limit_is_left_unchanged() {
    let mut observed = with_pods(executed(new(SET)), 1, 1);
    observed.set.status = Some(status_of(&observed, &ExecutionResult::default(), at(1)));
    observed.set.metadata.generation = Some(4);
    observed.set.spec.replicas = 100_000;
    for clique in &mut observed.set.spec.template.cliques {
        clique.spec.replicas = 100_000;
    }
    assert_eq!(
        plan(&observed).to_string(),
        "wait: TooManyObjects the set expands to more than 100000 objects, pods included; Grove creates and deletes nothing until \
         the set, its scaling groups or its cliques have fewer replicas\n"
    );
    let status = status_of(&observed, &ExecutionResult::default(), at(2));
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("the condition");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "TooManyObjects"));
    assert_eq!((status.replicas, status.available_replicas), (Some(100_000), 2));
    assert_eq!((status.observed_generation, available.observed_generation), (Some(3), Some(4)));
    observed.set.status = Some(status.clone());
    assert_eq!(status_of(&observed, &ExecutionResult::default(), at(3)), status);
}

#[test]
fn a_set_above_the_limit_of_startup_dependencies_is_left_unchanged() {
    let mut observed = new(GROUPED);
    let group = &mut observed.set.spec.template.pod_clique_scaling_groups[0];
    (group.replicas, group.min_available) = (Some(2000), Some(2000));
    assert_eq!(
        plan(&observed).to_string(),
        "wait: TooManyStartupDependencies the PodCliques of the set have more than 500000 startup dependencies, or one of them has more \
         than 2000; Grove creates and deletes nothing until the set or its scaling groups have fewer replicas, or the set is created \
         again with a smaller minAvailable\n"
    );
    let status = status_of(&observed, &ExecutionResult::default(), at(2));
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("the condition");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "TooManyStartupDependencies"));
}
