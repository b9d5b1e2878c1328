//! The backoff of rejected creates, and what ends it.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;
use crate::executor::StepResult;
use grove_test_support::mock_api_server::config_map;

fn object(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, 1, "owner")).unwrap()
}

/// The result of the create of one config map with a manifest of this size.
fn step(name: &str, rejection: Option<ApiError>, bytes: usize) -> StepResult {
    let (target, result) = (Target::of(&object(name)), rejection.map_or(Ok(()), Err));
    StepResult { bytes, ..StepResult::new("s", "create", target, result) }
}

fn result(results: &[(&str, Option<u16>)]) -> ExecutionResult {
    let rejection = |code: Option<u16>| code.map(|code| ApiError::new(code, "Forbidden", "no"));
    ExecutionResult { steps: results.iter().map(|(name, code)| step(name, rejection(*code), 1)).collect() }
}

fn quota() -> ApiError {
    ApiError::new(403, "Forbidden", "configmaps \"a\" is forbidden: exceeded quota: small")
}

/// The result of creates, of which a quota rejected the last one.
fn quota_result(names: &[&str]) -> ExecutionResult {
    let rejection = |at: usize| (at + 1 == names.len()).then(quota);
    ExecutionResult { steps: names.iter().enumerate().map(|(at, name)| step(name, rejection(at), 1)).collect() }
}

/// Records the result of a plan that begins now.
fn record(backoff: &CreateBackoff<ConfigMap>, result: &ExecutionResult) {
    backoff.record(&object("o"), &backoff.active(&object("o")), result);
}

/// Waits until the next retry is due.
async fn wait_for_retry(backoff: &CreateBackoff<ConfigMap>) -> Duration {
    let wait = backoff.active(&object("o")).retry_after.unwrap();
    tokio::time::advance(wait).await;
    wait
}

fn names(backoff: &CreateBackoff<ConfigMap>) -> Vec<String> {
    backoff.active(&object("o")).children.into_iter().map(|(target, _)| target.name).collect()
}

/// Whether nothing of the kind is created.
fn is_blocked(backoff: &CreateBackoff<ConfigMap>) -> bool {
    backoff.active(&object("o")).blocked_kinds.contains("ConfigMap")
}

#[tokio::test(start_paused = true)]
async fn a_rejected_create_is_retried_with_exponential_backoff() {
    let backoff = CreateBackoff::default();
    for longest in [500, 1000, 2000, 4000] {
        record(&backoff, &result(&[("a", Some(403)), ("b", None), ("c", Some(422))]));
        assert_eq!((names(&backoff), is_blocked(&backoff)), (vec!["a".to_owned(), "c".to_owned()], false));
        let wait = wait_for_retry(&backoff).await;
        assert!(wait <= Duration::from_millis(longest) && wait >= Duration::from_millis(longest / 2), "{wait:?}");
        assert_eq!(names(&backoff), Vec::<String>::new());
    }
    record(&backoff, &result(&[("a", None)]));
    assert!(backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_rejected_during_the_backoff_shares_its_retry() {
    let backoff = CreateBackoff::default();
    record(&backoff, &result(&[("a", Some(403))]));
    let active = backoff.active(&object("o"));
    record(&backoff, &result(&[("b", Some(403))]));
    assert_eq!(
        (names(&backoff), backoff.active(&object("o")).retry_after),
        (vec!["a".to_owned(), "b".to_owned()], active.retry_after)
    );
}

#[tokio::test(start_paused = true)]
async fn a_quota_blocks_its_kind_until_a_retry_succeeds() {
    let backoff = CreateBackoff::default();
    record(&backoff, &quota_result(&["a", "b"]));
    for _ in 0..3 {
        assert!(is_blocked(&backoff));
        wait_for_retry(&backoff).await;
        let active = backoff.active(&object("o"));
        assert_eq!(active.retried_kinds, BTreeSet::from(["ConfigMap".to_owned()]));
        assert_eq!((active.blocked_kinds.len(), active.children.len(), active.retry_after), (0, 0, None));
        record(&backoff, &quota_result(&["b"]));
    }
    wait_for_retry(&backoff).await;
    record(&backoff, &result(&[("b", None)]));
    assert!(backoff.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_created_child_of_the_kind_shortens_the_next_delay() {
    let backoff = CreateBackoff::default();
    for _ in 0..6 {
        record(&backoff, &quota_result(&["b"]));
        wait_for_retry(&backoff).await;
    }
    record(&backoff, &quota_result(&["b"]));
    assert!(wait_for_retry(&backoff).await > Duration::from_secs(5));
    record(&backoff, &quota_result(&["a", "b"]));
    assert_eq!(backoff.active(&object("o")).retry_after, Some(Duration::from_millis(500)));
}

#[tokio::test(start_paused = true)]
async fn many_or_large_rejected_objects_block_their_kind_and_a_retry_ends_that() {
    for (count, bytes, expected) in
        [(MAX_REJECTIONS - 1, 1, false), (MAX_REJECTIONS, 1, true), (1, 1 << 20, false), (2, 1 << 20, true)]
    {
        let backoff = CreateBackoff::default();
        let rejected = |nth: usize| step(&format!("m{nth}"), Some(ApiError::new(422, "Invalid", "no")), bytes);
        record(&backoff, &ExecutionResult { steps: (0..count).map(rejected).collect() });
        assert_eq!(is_blocked(&backoff), expected, "{count} objects of {bytes} bytes");
        wait_for_retry(&backoff).await;
        assert_eq!((is_blocked(&backoff), names(&backoff).len()), (false, 0));
        record(&backoff, &ExecutionResult { steps: vec![rejected(count)] });
        assert_eq!((is_blocked(&backoff), names(&backoff).len()), (false, 1), "earlier ones are dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_namespace_ends_the_backoff_of_a_quota_and_not_that_of_a_policy() {
    let (quota, policy) = (CreateBackoff::default(), CreateBackoff::default());
    record(&quota, &quota_result(&["a"]));
    record(&policy, &result(&[("b", Some(422))]));
    let deletion = |namespace: &str| {
        let object = json!({ "metadata": { "name": "x", "namespace": namespace } });
        Delta { old: Some(Arc::new(serde_json::from_value::<ConfigMap>(object).unwrap())), new: None }
    };
    assert_eq!(quota.reset_on_delete(&deletion("other")), []);
    assert_eq!(policy.reset_on_delete(&deletion("ns")), []);
    assert_eq!(quota.reset_on_delete(&deletion("ns")), [ObjectRef::new("o").within("ns")]);
    assert!(!is_blocked(&quota));
    assert_eq!(quota.reset_on_delete(&deletion("ns")), []);
}

#[tokio::test(start_paused = true)]
async fn delays_are_short_again_after_a_deletion() {
    let backoff = CreateBackoff::default();
    for _ in 0..6 {
        record(&backoff, &quota_result(&["a"]));
        wait_for_retry(&backoff).await;
    }
    record(&backoff, &quota_result(&["a"]));
    assert!(backoff.active(&object("o")).retry_after > Some(Duration::from_secs(5)));
    let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
    assert_eq!(backoff.reset_on_delete(&deleted).len(), 1);
    record(&backoff, &quota_result(&["a"]));
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

/// The first batch of creates; 0 during the backoff.
fn first_batch(backoff: &CreateBackoff<ConfigMap>, owner: &ConfigMap) -> usize {
    backoff.active(owner).slow_start().map_or(0, |slow_start| slow_start.first_batch)
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
    tokio::time::advance(backoff.active(&of_generation(1)).retry_after.unwrap()).await;
    backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("c", None)]));
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
        tokio::time::advance(Duration::from_millis(1)).await;
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
    assert!(backoff.is_empty());
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
async fn failed_creates_have_the_same_order_while_they_wait_and_when_they_are_retried() {
    let order = |active: &BackedOffCreates, result: &ExecutionResult| {
        active.failed_writes(result).map(|(_, target, _)| target.name.clone()).collect::<Vec<_>>()
    };
    let rejected = ExecutionResult {
        steps: vec![step("policy", Some(ApiError::new(422, "Invalid", "no")), 1), step("quota", Some(quota()), 1)],
    };
    let backoff = CreateBackoff::default();
    record(&backoff, &rejected);
    let (active, nothing) = (backoff.active(&object("o")), ExecutionResult::default());
    assert_eq!(order(&BackedOffCreates::default(), &rejected), ["quota", "policy"]);
    assert_eq!(order(&active, &nothing), ["quota", "policy"]);
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
