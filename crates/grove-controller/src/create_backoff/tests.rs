//! The backoff of rejected creates, and what ends it.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::executor::StepResult;
use grove_test_support::mock_api_server::config_map;

fn object(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, 1, "owner")).unwrap()
}

fn result(results: &[(&str, Option<u16>)]) -> ExecutionResult {
    let step = |(name, code): &(&str, Option<u16>)| {
        let result = code.map_or(Ok(()), |code| Err(ApiError::new(code, "Forbidden", "no")));
        StepResult { stage: "s", verb: "create", target: Target::of(&object(name)), result, is_changed: false }
    };
    ExecutionResult { steps: results.iter().map(step).collect() }
}

fn names(backoff: &CreateBackoff<ConfigMap>) -> Vec<String> {
    backoff.active(&object("o")).children.into_iter().map(|(target, _)| target.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_rejected_create_is_retried_with_exponential_backoff() {
    let backoff = CreateBackoff::default();
    for longest in [500, 1000, 2000, 4000] {
        backoff.record(
            &object("o"),
            &BackedOffCreates::default(),
            &result(&[("a", Some(403)), ("b", None), ("c", Some(422))]),
        );
        assert_eq!(names(&backoff), ["a", "c"]);
        let wait = backoff.active(&object("o")).retry_after.unwrap();
        assert!(wait <= Duration::from_millis(longest) && wait >= Duration::from_millis(longest / 2), "{wait:?}");
        tokio::time::advance(wait).await;
        assert_eq!(names(&backoff), Vec::<String>::new());
    }
    backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", None)]));
    assert!(backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_rejected_during_the_backoff_shares_its_retry() {
    let backoff = CreateBackoff::default();
    backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    let active = backoff.active(&object("o"));
    backoff.record(&object("o"), &active, &result(&[("b", Some(403))]));
    assert_eq!(
        (names(&backoff), backoff.active(&object("o")).retry_after),
        (vec!["a".to_owned(), "b".to_owned()], active.retry_after)
    );
}

#[tokio::test(start_paused = true)]
async fn the_rejections_of_each_retry_are_counted_and_those_during_its_backoff_are_not() {
    let (backoff, owner) = (CreateBackoff::default(), object("o"));
    for expected in [2, 4, 6] {
        let two_of_three = result(&[("a", Some(403)), ("b", None), ("c", Some(422))]);
        backoff.record(&owner, &backoff.active(&owner), &two_of_three);
        backoff.record(&owner, &backoff.active(&owner), &result(&[("d", Some(403))]));
        let active = backoff.active(&owner);
        assert_eq!((active.children.len(), active.earlier_rejections), (3, expected));
        tokio::time::advance(active.retry_after.unwrap()).await;
        assert_eq!(backoff.active(&owner).earlier_rejections, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_namespace_ends_the_backoff() {
    let backoff = CreateBackoff::default();
    backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    let deletion = |namespace: &str| {
        let object = json!({ "metadata": { "name": "x", "namespace": namespace } });
        Delta { old: Some(Arc::new(serde_json::from_value::<ConfigMap>(object).unwrap())), new: None }
    };
    assert_eq!(backoff.reset_on_delete(&deletion("other")), []);
    assert_eq!(backoff.reset_on_delete(&deletion("ns")), [ObjectRef::new("o").within("ns")]);
    assert_eq!(names(&backoff), Vec::<String>::new());
    assert_eq!(backoff.active(&object("o")).retry_after, None);
}

#[tokio::test(start_paused = true)]
async fn delays_are_short_again_after_a_deletion() {
    let backoff = CreateBackoff::default();
    for _ in 0..6 {
        backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    }
    assert!(backoff.active(&object("o")).retry_after > Some(Duration::from_secs(5)));
    let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
    assert_eq!(backoff.reset_on_delete(&deleted).len(), 1);
    backoff.record(&object("o"), &backoff.active(&object("o")), &result(&[("a", Some(403))]));
    assert_eq!(backoff.active(&object("o")).retry_after, Some(Duration::from_millis(500)));
}

/// Records a rejected create of alike children of an owner of generation 1.
fn alike(code: u16) -> CreateBackoff<ConfigMap> {
    let backoff = CreateBackoff::of_alike_children();
    backoff.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("a", Some(code)), ("b", None)]));
    backoff
}

fn of_generation(generation: i64) -> ConfigMap {
    let mut owner = object("o");
    owner.metadata.generation = Some(generation);
    owner
}

/// The first batch of a hundred creates; 0 during the backoff.
fn first_batch(backoff: &CreateBackoff<ConfigMap>, owner: &ConfigMap) -> usize {
    backoff.active(owner).slow_start(100).map_or(0, |slow_start| slow_start.first_batch)
}

fn max_creates(backoff: &CreateBackoff<ConfigMap>, generation: i64) -> usize {
    first_batch(backoff, &of_generation(generation))
}

#[tokio::test(start_paused = true)]
async fn alike_children_are_not_created_during_the_backoff_and_its_retry_starts_with_one() {
    let backoff = alike(403);
    assert_eq!(max_creates(&backoff, 1), 0);
    tokio::time::advance(backoff.active(&of_generation(1)).retry_after.unwrap()).await;
    assert_eq!(max_creates(&backoff, 1), 1);
    backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("a", Some(503))]));
    assert_eq!(max_creates(&backoff, 1), 1, "a result without a response of the API server proves nothing");
    backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("c", Some(422))]));
    assert_eq!(max_creates(&backoff, 1), 0);
    backoff.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("c", None)]));
    assert_eq!(max_creates(&backoff, 1), SlowStart::INITIAL.first_batch);
    assert!(backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_of_the_owner_retries_only_alike_children() {
    let backoff = alike(403);
    assert_eq!((max_creates(&backoff, 1), max_creates(&backoff, 2)), (0, 1));
    backoff.record(&of_generation(2), &backoff.active(&of_generation(2)), &result(&[("a", Some(403))]));
    assert_eq!(max_creates(&backoff, 2), 0);
    let different = CreateBackoff::default();
    different.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    assert!(!different.active(&of_generation(2)).children.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_label_or_annotation_of_the_owner_retries_alike_children() {
    let backoff = alike(403);
    let (mut labelled, mut annotated) = (of_generation(1), of_generation(1));
    labelled.labels_mut().insert("team".into(), "x".into());
    annotated.annotations_mut().insert("team".into(), "x".into());
    let max_creates = |owner| first_batch(&backoff, owner);
    assert_eq!([&of_generation(1), &labelled, &annotated].map(max_creates), [0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_retries_an_owner_only_during_its_backoff() {
    let backoff = alike(403);
    let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
    assert_eq!([1, 2].map(|_| backoff.reset_on_delete(&deleted).len()), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn each_deletion_ends_the_backoff_of_a_few_owners_in_the_order_in_which_they_wait() {
    let backoff = CreateBackoff::of_alike_children();
    let owner = |nth: usize| {
        let mut owner = object(&format!("o{nth}"));
        owner.metadata.uid = Some(format!("uid-{}", 9 - nth));
        owner
    };
    for nth in 0..10 {
        backoff.record(&owner(nth), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    }
    let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
    let retried = || backoff.reset_on_delete(&deleted).into_iter().map(|owner| owner.name).collect::<Vec<_>>();
    assert_eq!(retried(), ["o0", "o1", "o2", "o3"]);
    // The retry of the first owner is rejected, so it waits behind the others. The next owner was deleted.
    backoff.record(&owner(0), &backoff.active(&owner(0)), &result(&[("a", Some(403))]));
    backoff.forget(&owner(4));
    assert_eq!(retried(), ["o5", "o6", "o7", "o8"]);
    assert_eq!(retried(), ["o9", "o0"]);
    assert_eq!(backoff.len(), 9);
    (0..10).for_each(|nth| backoff.forget(&owner(nth)));
    assert!(backoff.is_empty() && backoff.entries.lock().waiting_is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_retry_counts_and_a_created_child_shortens_the_next_delay() {
    let backoff = alike(403);
    for retries in 1..6 {
        assert_eq!(backoff.active(&of_generation(1)).retries, retries);
        tokio::time::advance(backoff.active(&of_generation(1)).retry_after.unwrap()).await;
        backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("a", Some(403))]));
    }
    let retry_after = || backoff.active(&of_generation(1)).retry_after.unwrap();
    assert!(retry_after() > Duration::from_secs(5));
    tokio::time::advance(retry_after()).await;
    let partly = result(&[("a", None), ("b", Some(403))]);
    backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &partly);
    assert_eq!(retry_after(), Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn a_name_conflict_and_an_unavailable_server_are_no_rejections_of_alike_children() {
    for code in [0, 409, 500, 503] {
        assert_eq!(max_creates(&alike(code), 1), SlowStart::INITIAL.first_batch, "{code}");
    }
    for code in [403, 422] {
        assert_eq!(max_creates(&alike(code), 1), 0, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_owner_has_no_entry() {
    let backoff = alike(403);
    backoff.forget(&object("o"));
    assert!(backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_owner_does_not_end_the_backoff_of_its_successor() {
    let backoff = CreateBackoff::of_alike_children();
    let mut successor = object("o");
    successor.metadata.uid = Some("uid-of-successor".into());
    backoff.record(&successor, &BackedOffCreates::default(), &result(&[("a", Some(403))]));
    backoff.forget(&object("o"));
    assert_eq!(backoff.active(&successor).children.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creates_that_wait_for_their_retry_precede_the_failed_steps() {
    let (active, result) = (alike(403).active(&of_generation(1)), result(&[("b", None), ("c", Some(422))]));
    let failed: Vec<_> =
        active.failed_writes(&result).map(|(verb, target, error)| (verb, &*target.name, error.code)).collect();
    assert_eq!(failed, [("create", "a", 403), ("create", "c", 422)]);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_api_server_starts_no_backoff() {
    let backoff = CreateBackoff::default();
    for code in [0, 401, 429, 500, 503] {
        backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(code))]));
        assert_eq!(names(&backoff), Vec::<String>::new(), "{code}");
    }
}
