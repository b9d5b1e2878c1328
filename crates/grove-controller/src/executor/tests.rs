//! The executor under each response of the API server: no failure is lost, and no request is repeated.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use serde_json::json;

use super::*;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog, config_map};
use tokio::time::{Instant, timeout};

mod deletes;
mod leading;
mod logs;
mod stages;
mod terminating_namespaces;

fn executor(script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> (Executor, RequestLog) {
    let (client, log) = mock_api_server::client(script);
    (Executor::new(client, EventBroadcaster::discarding(), Metrics::new().unwrap()), log)
}

fn object(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, 1, "owner")).unwrap()
}

fn tested_patch() -> Step {
    let patch = json!([{ "op": "test", "path": "/metadata/uid", "value": "u" }]);
    Step::json_patch(&object("a"), serde_json::from_value(patch).unwrap())
}

/// Executes one step against a server that responds with `answer`; returns the result and the number of requests.
async fn try_step(
    step: Step,
    answer: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> (ExecutionResult, usize) {
    let (executor, log) = executor(answer);
    let done = executor.execute(&object("subject"), &Plan::new().stage(Stage::new("s", [step]))).await;
    (done, log.requests().len())
}

#[tokio::test]
async fn a_rejected_step_fails_after_one_request_with_the_message_of_the_server() {
    for (code, reason) in [
        (400, "BadRequest"),
        (403, "Forbidden"),
        (410, "Gone"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        for step in [
            Step::create(&object("a")),
            Step::merge_patch(&object("a"), json!({ "data": { "k": "v" } })),
            Step::delete(&object("a")),
        ] {
            let text = step.to_string();
            let (done, requests) = try_step(step, move |_| MockResponse::error(code, reason)).await;
            let failure = done.failures().next().unwrap_or_else(|| panic!("{text} did not fail with {code}"));
            assert_eq!((failure.code, failure.reason.as_str(), requests), (code, reason, 1), "{text}");
            assert_eq!(failure.message, format!("the server returned {reason}"));
        }
    }
}

#[test]
fn errors_401_and_403_carry_a_hint() {
    let token = "the server returned Unauthorized; the token of this service is not accepted, it may have expired";
    let rule = "the server returned Forbidden; the account of this service lacks a rule";
    for (code, reason, of_write, of_need) in [
        (401, "Unauthorized", token, token),
        (403, "Forbidden", "the server returned Forbidden", rule),
        (409, "Conflict", "the server returned Conflict", "the server returned Conflict"),
    ] {
        let status: kube::core::Status = serde_json::from_value(mock_api_server::status(code, reason)).unwrap();
        let needed = ApiError::for_required_access(ApiError::from(&status));
        let written = ApiError::from(&kube::Error::Api(Box::new(status)));
        assert_eq!((&*written.message, &*needed.message), (of_write, of_need));
        assert_eq!((written.code, needed.code, &*needed.reason), (code, code, reason));
    }
}

#[tokio::test]
async fn the_retry_after_of_the_server_is_part_of_the_error() {
    let mut body = mock_api_server::status(429, "TooManyRequests");
    body["details"] = json!({ "retryAfterSeconds": 7 });
    let (done, _) = try_step(Step::create(&object("a")), move |_| MockResponse::Json(429, body.clone())).await;
    assert_eq!(done.failures().next().unwrap().retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn an_error_response_without_a_status_object_is_a_failure() {
    let (done, requests) = try_step(Step::create(&object("a")), |_| MockResponse::Json(429, json!("slow down"))).await;
    assert_eq!((done.failures().next().unwrap().code, requests), (429, 1));
}

#[tokio::test(start_paused = true)]
async fn a_broken_or_silent_connection_fails_the_step_with_code_0() {
    let (done, requests) = try_step(Step::create(&object("a")), |_| MockResponse::ConnectionReset).await;
    let failure = done.failures().next().unwrap();
    assert_eq!((failure.code, failure.reason.as_str(), requests), (0, "Transport", 1));
    assert!(failure.message.contains("connection reset by peer"), "{}", failure.message);
    let (executor, _) = executor(|_| MockResponse::NoResponse);
    let started = Instant::now();
    let plan = Plan::new().stage(Stage::new("s", [Step::delete(&object("a"))]));
    let done = executor.execute(&object("subject"), &plan).await;
    assert_eq!((done.failures().next().unwrap().reason.as_str(), started.elapsed()), ("Timeout", REQUEST_TIMEOUT));
}

#[tokio::test]
async fn a_change_that_another_client_wrote_first_is_no_failure() {
    for (step, code, reason) in [
        (Step::merge_patch(&object("a"), json!({})), 409, "Conflict"),
        (Step::merge_patch(&object("a"), json!({})), 404, "NotFound"),
        (tested_patch(), 422, "Invalid"),
        (Step::delete(&object("a")), 404, "NotFound"),
        (Step::delete(&object("a")), 409, "Conflict"),
    ] {
        let text = step.to_string();
        let (done, requests) = try_step(step, move |_| MockResponse::error(code, reason)).await;
        assert!(done.succeeded() && requests == 1, "{text} under {code}: {done:?}");
    }
}

#[tokio::test]
async fn a_json_patch_that_makes_the_object_invalid_fails() {
    let mut body = mock_api_server::status(422, "Invalid");
    body["details"] = json!({ "causes": [{ "reason": "FieldValueInvalid", "field": "spec.x", "message": "bad" }] });
    let (done, _) = try_step(tested_patch(), move |_| MockResponse::Json(422, body.clone())).await;
    assert_eq!(done.failures().next().unwrap().code, 422);
}

#[tokio::test]
async fn the_results_of_a_large_stage_are_complete_and_in_the_order_of_its_steps() {
    let (executor, log) = executor(|request| {
        if request.path.contains("/odd") {
            return MockResponse::error(403, "Forbidden");
        }
        MockResponse::ok(config_map("a", 1, "owner"))
    });
    let names: Vec<_> = (0..=3 * MAX_IN_FLIGHT_WRITES).map(|n| format!("{}-{n}", ["even", "odd"][n % 2])).collect();
    let steps = names.iter().map(|name| Step::delete(&object(name)));
    let done = executor.execute(&object("subject"), &Plan::new().stage(Stage::new("s", steps))).await;
    let results: Vec<_> =
        done.steps.iter().map(|outcome| (outcome.target.name.clone(), outcome.result.is_ok())).collect();
    let expected: Vec<_> = names.into_iter().map(|name| (name.clone(), name.starts_with("even"))).collect();
    assert_eq!((results, log.requests().len()), (expected, 3 * MAX_IN_FLIGHT_WRITES + 1));
}

#[tokio::test]
async fn an_existing_object_is_already_owned_or_a_name_conflict() {
    for (owner, succeeds) in [("owner", true), ("another", false)] {
        let (done, requests) = try_step(Step::create(&object("a")), move |request| match &*request.method {
            "POST" => MockResponse::error(409, "AlreadyExists"),
            _ => MockResponse::ok(config_map("a", 2, owner)),
        })
        .await;
        assert_eq!((done.succeeded(), requests), (succeeds, 2), "owner {owner}");
        assert!(done.failures().all(|failure| (failure.code, &*failure.reason) == (409, ApiError::NAME_CONFLICT)));
    }
}

#[tokio::test]
async fn an_existing_object_without_controller_is_already_owned_if_it_has_all_labels() {
    let labels = |value: &str| BTreeMap::from([("domain".to_owned(), value.to_owned())]);
    for (ours, theirs, succeeds) in [
        (Some(labels("u")), json!({ "domain": "u", "more": "x" }), true),
        (Some(labels("u")), json!({ "domain": "v" }), false),
        (None, json!({}), false),
    ] {
        let mut desired = object("a");
        desired.metadata.owner_references = None;
        desired.metadata.labels.clone_from(&ours);
        let live = named("a", "uid-a", &json!({ "labels": theirs }));
        let (done, _) = try_step(Step::create(&desired), move |request| match &*request.method {
            "POST" => MockResponse::error(409, "AlreadyExists"),
            _ => MockResponse::ok(live.clone()),
        })
        .await;
        assert_eq!(done.succeeded(), succeeds, "{ours:?}");
    }
}

/// Adopts an object while the server responds with `owner` and `live` to GET; returns the writes.
async fn adopt(owner: Value, live: Value) -> Vec<RecordedRequest> {
    let (executor, log) = executor(move |request| {
        let about = if request.path.ends_with("/owner") { &owner } else { &live };
        match &*request.method {
            "GET" => MockResponse::Json(if about["kind"] == "Status" { 404 } else { 200 }, about.clone()),
            _ => MockResponse::ok(request.body.clone()),
        }
    });
    let mut owner = object("owner");
    owner.metadata.uid = Some("owner-uid".into());
    let reference: Vec<_> = owner.controller_owner_ref(&()).into_iter().collect();
    let step = Step::adopt(&owner, Target::of(&object("a")), reference);
    let done = executor.execute(&owner, &Plan::new().stage(Stage::new("s", [step]))).await;
    assert!(done.succeeded());
    log.requests().into_iter().filter(|request| request.method != "GET").collect()
}

fn named(name: &str, uid: &str, more: &Value) -> Value {
    let mut object = json!({ "metadata": { "name": name, "uid": uid, "resourceVersion": "9" } });
    json_patch::merge(&mut object["metadata"], more);
    object
}

#[tokio::test]
async fn an_orphan_is_adopted_and_retains_its_other_owners() {
    let other = json!({ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid" });
    let live = named("a", "uid-a", &json!({ "ownerReferences": [other] }));
    let written = adopt(named("owner", "owner-uid", &json!({})), live).await;
    assert_eq!((written.len(), &*written[0].method), (1, "PATCH"));
    let metadata = &written[0].body["metadata"];
    assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("uid-a"), &json!("9")));
    assert_eq!(metadata["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(metadata["ownerReferences"][1]["uid"], "owner-uid");
}

#[tokio::test]
async fn a_terminating_owner_adopts_nothing_and_controlled_or_deleted_objects_are_not_adopted() {
    let missing = || mock_api_server::status(404, "NotFound");
    let terminating = || json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let controlled = json!({ "ownerReferences": config_map("x", 1, "another")["metadata"]["ownerReferences"] });
    let owner = || named("owner", "owner-uid", &json!({}));
    let object = || named("a", "uid-a", &json!({}));
    for (owner, live) in [
        (named("owner", "owner-uid", &terminating()), object()),
        (named("owner", "another-uid", &json!({})), object()),
        (missing(), object()),
        (owner(), named("a", "uid-a", &terminating())),
        (owner(), named("a", "another-uid", &json!({}))),
        (owner(), named("a", "uid-a", &controlled)),
        (owner(), missing()),
    ] {
        let text = format!("{owner} {live}");
        assert!(adopt(owner, live).await.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_create_returns_the_uid_of_the_new_or_existing_object() {
    for (post, expected) in [(201, "uid-new"), (409, "uid-a")] {
        let (done, _) = try_step(Step::create(&object("a")), move |request| match (&*request.method, post) {
            ("POST", 201) => {
                let mut created = request.body.clone();
                created["metadata"]["uid"] = json!("uid-new");
                MockResponse::Json(201, created)
            }
            ("POST", _) => MockResponse::error(409, "AlreadyExists"),
            _ => MockResponse::ok(config_map("a", 2, "owner")),
        })
        .await;
        let uids: Vec<_> = done.steps.iter().map(|outcome| outcome.target.uid.as_deref()).collect();
        assert_eq!(uids, [Some(expected)]);
    }
}

#[tokio::test]
async fn a_failed_step_ends_the_plan_after_its_stage() {
    let (executor, log) = executor(|request| match request.body.pointer("/metadata/name").and_then(Value::as_str) {
        Some("bad") => MockResponse::error(500, "InternalError"),
        _ => MockResponse::ok(request.body.clone()),
    });
    let creates = |names: &[&str]| names.iter().map(|name| Step::create(&object(name))).collect::<Vec<_>>();
    let plan = Plan::new()
        .stage(Stage::new("first", creates(&["a"])))
        .stage(Stage::new("second", creates(&["bad", "b"])))
        .stage(Stage::new("third", creates(&["c"])));
    let done = executor.execute(&object("subject"), &plan).await;
    let tried: Vec<_> = done.steps.iter().map(|o| (o.stage, &*o.target.name, o.result.is_ok())).collect();
    assert_eq!(tried, [("first", "a", true), ("second", "bad", false), ("second", "b", true)]);
    assert_eq!(log.requests().len(), 3);
    let error = done.into_result().unwrap_err();
    assert_eq!(
        grove_runtime::api_error::error_chain(&error),
        "could not write ConfigMap bad: 500 InternalError: the server returned InternalError"
    );
}

#[tokio::test]
async fn a_rejected_create_blocks_only_its_own_failure_domain() {
    let executor_with = |rejection: fn() -> MockResponse| {
        executor(move |request| match request.body.pointer("/metadata/name").and_then(Value::as_str) {
            Some("0-first") => rejection(),
            _ => MockResponse::ok(config_map("x", 1, "owner")),
        })
    };
    let creates = |names: &[&str]| names.iter().map(|name| Step::create(&object(name))).collect::<Vec<_>>();
    let later = creates(&["0-later", "1-later", "no-domain"]).into_iter().chain([Step::delete(&object("0-old"))]);
    let parts = [("0-first", 0), ("0-later", 0), ("0-old", 0), ("1-first", 1), ("1-later", 1)];
    let plan = Plan::new()
        .stage(Stage::new("first", creates(&["0-first", "1-first"])))
        .stage(Stage::new("later", later))
        .with_failure_domains(parts.map(|(name, part)| (name.to_owned(), part)).into());
    let tried = async |rejection: fn() -> MockResponse| {
        let done = executor_with(rejection).0.execute(&object("subject"), &plan).await;
        assert!(!done.succeeded());
        done.steps.iter().map(|outcome| outcome.target.name.clone()).collect::<Vec<_>>()
    };
    let quota = tried(|| MockResponse::error(403, "Forbidden")).await;
    assert_eq!(quota, ["0-first", "1-first", "1-later", "no-domain", "0-old"]);
    let unavailable = tried(|| MockResponse::error(503, "ServiceUnavailable")).await;
    assert_eq!(unavailable, ["0-first", "1-first"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_writes_are_in_flight_than_allowed() {
    let (executor, log) = executor(|_| MockResponse::NoResponse);
    let steps = (0..100).map(|nth| Step::delete(&object(&format!("m{nth}"))));
    let plan = Plan::new().stage(Stage::new("s", steps));
    let waited = timeout(Duration::from_secs(1), async { executor.execute(&object("subject"), &plan).await });
    assert!(waited.await.is_err());
    assert_eq!(log.requests().len(), MAX_IN_FLIGHT_WRITES);
}

#[tokio::test]
async fn a_status_is_patched_only_if_it_differs() {
    let (executor, log) = executor(|_| MockResponse::ok(json!({ "metadata": { "name": "p" } })));
    let mut pod = Pod::default();
    (pod.metadata.name, pod.metadata.namespace) = (Some("p".into()), Some("ns".into()));
    pod.metadata.resource_version = Some("7".into());
    let old = PodStatus { phase: Some("Running".into()), reason: Some("R".into()), ..PodStatus::default() };
    let new = PodStatus { phase: Some("Running".into()), message: Some("M".into()), ..PodStatus::default() };
    let [old, new] = [old, new].map(|status| json!(status));
    assert!(executor.patch_status(&pod, &old, &old, StatusOwnership::Exclusive).await.unwrap());
    assert!(log.requests().is_empty());
    assert!(executor.patch_status(&pod, &old, &new, StatusOwnership::Exclusive).await.unwrap());
    assert_eq!(log.methods_and_names(), ["PATCH status"]);
    let precondition = json!({ "resourceVersion": "7" });
    assert_eq!(
        log.requests()[0].body,
        json!({ "metadata": precondition, "status": { "message": "M", "reason": null } })
    );
}

#[tokio::test]
async fn a_status_patch_fails_unless_the_object_was_deleted_or_changed_in_the_meantime() {
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "ns" } })).unwrap();
    let new = json!(PodStatus { phase: Some("Running".into()), ..PodStatus::default() });
    for code in [404, 409] {
        let (superseded, log) = executor(move |_| MockResponse::error(code, "X"));
        assert!(!superseded.patch_status(&pod, &Value::Null, &new, StatusOwnership::Exclusive).await.unwrap());
        assert_eq!(log.requests().len(), 1);
    }
    for code in [429, 500] {
        let (rejecting, log) = executor(move |_| MockResponse::error(code, "X"));
        assert!(rejecting.patch_status(&pod, &Value::Null, &new, StatusOwnership::Exclusive).await.is_err());
        assert_eq!(log.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_owner_is_deleted_if_its_name_is_not_found_or_belongs_to_another_uid() {
    for (answer, is_deleted) in [
        (config_map("a", 1, "owner"), false),
        (json!({ "metadata": { "name": "a", "uid": "another" } }), true),
        (mock_api_server::status(404, "NotFound"), true),
    ] {
        let code = if answer["kind"] == "Status" { 404 } else { 200 };
        let (executor, _) = executor(move |_| MockResponse::Json(code, answer.clone()));
        assert_eq!(executor.confirm_deleted(&object("a")).await.unwrap(), is_deleted);
    }
}

#[tokio::test]
async fn an_unserved_kind_is_reported_and_proves_no_deletion() {
    let not_served = |_: &RecordedRequest| MockResponse::Text(404, "404 page not found\n");
    let (executor, _) = executor(not_served);
    assert!(executor.confirm_deleted(&object("a")).await.is_err());
    let (done, _) = try_step(Step::create(&object("a")), not_served).await;
    let failure = done.failures().next().unwrap();
    assert_eq!((failure.code, &*failure.reason), (404, ApiError::NOT_SERVED));
    assert!(failure.message.contains("definition has to be installed"), "{failure}");
}
