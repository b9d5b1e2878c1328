//! Creates in a terminating namespace: after the first response none is sent, and nothing waits for the others.

use super::*;

/// The responses of the API server to a create in a namespace that is terminating, and in one that was deleted.
fn rejections() -> [Value; 2] {
    let mut terminating = mock_api_server::status(403, "Forbidden");
    terminating["details"] = json!({ "causes": [{ "reason": "NamespaceTerminating" }] });
    let mut not_found = mock_api_server::status(404, "NotFound");
    not_found["details"] = json!({ "kind": "namespaces", "name": "ns" });
    [terminating, not_found]
}

fn response(body: &Value) -> MockResponse {
    MockResponse::Json(u16::try_from(body["code"].as_u64().unwrap()).unwrap(), body.clone())
}

fn creates(names: std::ops::Range<usize>) -> Vec<Step> {
    names.map(|nth| Step::create(&object(&format!("m{nth}")))).collect()
}

#[tokio::test]
async fn a_create_in_a_terminating_namespace_is_no_failure_and_no_event_of_it_is_expected() {
    for body in rejections() {
        let mut desired = object("a");
        desired.metadata.uid = None;
        let (done, requests) = try_step(Step::create(&desired), move |_| response(&body)).await;
        assert!(done.succeeded() && requests == 1 && !done.has_pending_watch_events(), "{done:?}");
    }
    let (created, _) = try_step(Step::create(&object("a")), |_| MockResponse::ok(config_map("a", 1, "owner"))).await;
    assert!(created.has_pending_watch_events());
}

#[tokio::test]
async fn a_terminating_namespace_gets_no_second_batch_of_creates_until_the_owner_is_deleted() {
    for body in rejections() {
        let (executor, log) = executor(move |request| match &*request.method {
            "POST" => response(&body),
            _ => MockResponse::ok(config_map("a", 1, "owner")),
        });
        let plan = Plan::new()
            .stage(Stage::new("first", creates(0..100).into_iter().chain([Step::delete(&object("old"))])))
            .stage(Stage::new("second", creates(100..200)));
        let count = |method: &str| log.count(|request| request.method == method);
        for round in 1..=3 {
            let done = executor.execute(&object("subject"), &plan).await;
            assert_eq!((done.succeeded(), done.steps.len()), (true, 201));
            assert_eq!((count("POST"), count("DELETE")), (MAX_IN_FLIGHT_WRITES, round), "other steps are executed");
        }
        executor.execute(&object("another"), &plan).await;
        assert_eq!(count("POST"), 2 * MAX_IN_FLIGHT_WRITES);
        executor.forget(&object("subject"));
        executor.execute(&object("subject"), &plan).await;
        assert_eq!(count("POST"), 3 * MAX_IN_FLIGHT_WRITES);
    }
}

#[tokio::test(start_paused = true)]
async fn creates_are_sent_again_after_the_time_in_the_result() {
    let [terminating, _] = rejections();
    let (executor, log) = executor(move |_| response(&terminating));
    let (subject, plan) = (object("subject"), Plan::new().stage(Stage::new("s", creates(0..1))));
    assert_eq!(executor.recheck_namespace_after(&subject), None);
    let recheck = executor.execute(&subject, &plan).await.recheck_after.unwrap();
    tokio::time::advance(recheck / 2).await;
    assert_eq!(executor.execute(&subject, &Plan::new()).await.recheck_after, Some(recheck / 2));
    assert_eq!(executor.execute(&subject, &plan).await.recheck_after, Some(recheck / 2));
    assert_eq!(log.requests().len(), 1);
    tokio::time::advance(recheck / 2).await;
    assert_eq!(executor.recheck_namespace_after(&subject), None);
    assert_eq!(executor.execute(&subject, &plan).await.recheck_after, Some(recheck));
    assert_eq!(log.requests().len(), 2);
}

#[tokio::test]
async fn the_number_of_owners_in_terminating_namespaces_is_a_metric() {
    let [terminating, _] = rejections();
    let (executor, _) = executor(move |_| response(&terminating));
    let metrics = Metrics::new().unwrap();
    executor.add_state_metrics(&StateMetrics::register(metrics.registry()).unwrap(), "executor");
    let has_line = |count: usize| {
        let line = format!(r#"grove_state_entries{{controller="executor",map="terminating_namespaces"}} {count}"#);
        metrics.render().unwrap().contains(&line)
    };
    assert!(has_line(0));
    executor.execute(&object("subject"), &Plan::new().stage(Stage::new("s", creates(0..1)))).await;
    assert!(has_line(1));
    executor.forget(&object("subject"));
    assert!(has_line(0));
}

#[tokio::test]
async fn a_namespace_that_terminates_during_a_plan_gets_no_further_creates_than_those_in_flight() {
    let [terminating, _] = rejections();
    let (executor, log) = executor(move |request| match request.body["metadata"]["name"].as_str() {
        Some("m0") => MockResponse::ok(request.body.clone()),
        _ => response(&terminating),
    });
    let plan = Plan::new().stage(Stage::new("s", creates(0..200)));
    assert!(executor.execute(&object("subject"), &plan).await.succeeded());
    let sent = log.requests().len();
    assert!(sent <= 1 + MAX_IN_FLIGHT_WRITES, "{sent} requests");
}
