//! Patches of one shared object: which requests are sent, and which owners learn of a failure.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{join, join_all},
};
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog, config_map};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::{
    events::EventBroadcaster,
    executor::ExecutionResult,
    plan::{Plan, Stage, Step},
};

fn object(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, 1, "owner")).unwrap()
}

fn executor(script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> (Executor, RequestLog) {
    let (client, log) = mock_api_server::client(script);
    (Executor::new(client, EventBroadcaster::discarding(), Metrics::new().unwrap()), log)
}

/// The API server does not answer these of the requests, counted from 0.
fn executor_with_outage(outage: RangeInclusive<usize>) -> (Executor, RequestLog) {
    let requests = AtomicUsize::new(0);
    executor(move |_| {
        if outage.contains(&requests.fetch_add(1, Ordering::SeqCst)) {
            MockResponse::error(503, "ServiceUnavailable")
        } else {
            MockResponse::ok(json!({ "metadata": {} }))
        }
    })
}

/// Waits until no request is in flight, and no patch is queued.
async fn until_sent(executor: &Executor) {
    while executor.patched_objects() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The plan of one owner: its part of the shared object gets a value.
fn plan(part: usize, value: &str) -> Plan {
    let operations = json!([{ "op": "test", "path": "/metadata/uid", "value": "u" },
        { "op": "replace", "path": format!("/parts/{part}/value"), "value": value }]);
    let step = Step::json_patch_of_shared_object(&object("shared"), serde_json::from_value(operations).unwrap());
    Plan::new().stage(Stage::new("parts", [step]))
}

/// The reconciles of `owners` at the same time. Returns their results when no request is in flight any more.
async fn reconcile_all(executor: &Executor, owners: usize) -> Vec<ExecutionResult> {
    let reconciles =
        (0..owners).map(async |owner| executor.execute(&object(&format!("owner-{owner}")), &plan(owner, "new")).await);
    let results = join_all(reconciles).await;
    until_sent(executor).await;
    results
}

/// The parts that each request changes.
fn parts(log: &RequestLog) -> Vec<Vec<String>> {
    let changed = |operation: &Value| {
        let path = operation["path"].as_str().unwrap().strip_prefix("/parts/")?;
        Some(path.trim_end_matches("/value").to_owned())
    };
    log.requests().iter().map(|request| request.body.as_array().unwrap().iter().filter_map(changed).collect()).collect()
}

fn lengths(log: &RequestLog) -> Vec<usize> {
    parts(log).iter().map(Vec::len).collect()
}

#[tokio::test]
async fn queued_patches_are_sent_as_one_request_and_their_reconciles_do_not_wait() {
    let (executor, log) = executor(|_| MockResponse::ok(json!({ "metadata": { "name": "shared" } })));
    let results = reconcile_all(&executor, 6000).await;
    assert_eq!(lengths(&log), [1, 2500, 2500, 999], "5000 operations per request");
    assert!(results.iter().all(ExecutionResult::succeeded));
    let queued = results.iter().filter(|result| result.steps[0].is_queued).count();
    assert_eq!(queued, 5999);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_with_a_queued_patch_ends_before_the_response_to_the_patch_in_flight() {
    let (executor, log) = executor(|_| MockResponse::NoResponse);
    let (first, second) = (object("owner-0"), object("owner-1"));
    let (sent, queued) = (plan(0, "new"), plan(1, "new"));
    let mut sending = Box::pin(executor.execute(&first, &sent));
    assert!(sending.as_mut().now_or_never().is_none());
    assert!(executor.execute(&second, &queued).now_or_never().unwrap().steps[0].is_queued);
    let other = Step::json_patch_of_shared_object(&object("other"), Patch(vec![]));
    let other = Plan::new().stage(Stage::new("parts", [other]));
    let both = join(sending, executor.execute(&second, &other));
    assert!(timeout(Duration::from_secs(1), both).await.is_err());
    assert_eq!(log.requests().len(), 2, "the patch of another object does not wait");
}

#[tokio::test]
async fn only_the_owners_of_rejected_patches_are_reported() {
    let (executor, log) = executor(|request| {
        let is_rejected = request.body.to_string().contains("/parts/3/");
        if is_rejected { MockResponse::error(403, "Forbidden") } else { MockResponse::ok(json!({ "metadata": {} })) }
    });
    let mut failed = executor.failed_patches();
    let results = reconcile_all(&executor, 10).await;
    assert!(results.iter().all(ExecutionResult::succeeded));
    assert_eq!(lengths(&log), [1, 9, 4, 2, 2, 1, 1, 5], "the halves of each rejected request");
    assert_eq!(failed.next().now_or_never().flatten().unwrap().name, "owner-3");
    assert!(failed.next().now_or_never().is_none());
}

#[tokio::test]
async fn a_superseded_patch_is_not_reported() {
    let (executor, log) = executor(|request| {
        let is_first = request.body.as_array().is_some_and(|operations| operations.len() == 2);
        if is_first { MockResponse::ok(json!({ "metadata": {} })) } else { MockResponse::error(422, "Invalid") }
    });
    let mut failed = executor.failed_patches();
    reconcile_all(&executor, 3).await;
    assert_eq!(lengths(&log), [1, 2, 1, 1]);
    assert!(failed.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn queued_patches_are_sent_again_until_the_api_server_answers() {
    let (executor, log) = executor_with_outage(1..=2);
    let mut failed = executor.failed_patches();
    timeout(Duration::from_mins(1), reconcile_all(&executor, 3)).await.unwrap();
    assert_eq!(lengths(&log), [1, 2, 2, 2]);
    assert!(failed.next().now_or_never().is_none());
}

/// A patch of a large gang takes the API server long, and its cliques complete one after the other.
#[tokio::test(start_paused = true)]
async fn patches_that_follow_a_slow_request_are_combined() {
    let (executor, log) = executor_with_outage(1..=1);
    let owners = [0, 1, 2, 3].map(|owner| (object(&format!("owner-{owner}")), plan(owner, "new")));
    join_all(owners[..2].iter().map(|(owner, plan)| executor.execute(owner, plan))).await;
    while log.requests().len() < 3 {
        sleep(Duration::from_millis(1)).await;
    }
    for (owner, plan) in &owners[2..] {
        assert!(executor.execute(owner, plan).await.steps[0].is_queued);
        sleep(Duration::from_millis(1)).await;
    }
    until_sent(&executor).await;
    assert_eq!(parts(&log), [vec!["0"], vec!["1"], vec!["1"], vec!["2", "3"]]);
}

#[tokio::test]
async fn a_later_patch_of_an_owner_replaces_its_queued_one() {
    let (executor, log) = executor(|_| MockResponse::ok(json!({ "metadata": {} })));
    let owners = [object("owner-0"), object("owner-1")];
    let plans = [plan(0, "first"), plan(1, "first"), plan(1, "second")];
    let reconciles = [(&owners[0], &plans[0]), (&owners[1], &plans[1]), (&owners[1], &plans[2])];
    join_all(reconciles.map(|(owner, plan)| executor.execute(owner, plan))).await;
    until_sent(&executor).await;
    assert_eq!(parts(&log), [["0"], ["1"]]);
    assert_eq!(log.requests()[1].body[1]["value"], "second");
}

#[test]
fn a_request_has_limits() {
    let queued = |operations: usize, bytes: usize| {
        let remove = json!([{ "op": "remove", "path": "/a" }]);
        let patch: Patch = serde_json::from_value(remove).unwrap();
        let patch = Patch(patch.0.into_iter().cycle().take(operations).collect());
        QueuedPatch { owner: Target::of(&object("owner")), patch, bytes }
    };
    let size = |operations, bytes| batch_size(&(0..600).map(|_| queued(operations, bytes)).collect::<Vec<_>>());
    assert_eq!([size(1, 1), size(100, 1), size(1, MAX_BYTES / 4)], [600, MAX_OPERATIONS / 100, 4]);
    assert_eq!(size(1, 2 * MAX_BYTES), 1, "a large patch is sent alone");
}
