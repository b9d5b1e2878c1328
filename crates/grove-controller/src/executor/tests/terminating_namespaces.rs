//! Creates that the API server rejects before the watch event of the terminating namespace: after the first response the executor sends
//! no further step.

use grove_runtime::caches::{Cache, InformerOptions};

use super::*;
use crate::terminating_namespaces::{SlimNamespace, TerminatingNamespaces};

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
async fn a_create_that_a_terminating_namespace_rejects_fails_and_ends_the_plan() {
    let domains = (0..200).map(|nth| (format!("m{nth}"), nth)).collect();
    let plan = Plan::new()
        .stage(Stage::new("first", creates(0..100)))
        .stage(Stage::new("second", creates(100..200).into_iter().chain([Step::delete(&object("old"))])));
    let with_domains = plan.clone().with_failure_domains(domains);
    for body in rejections() {
        for plan in [plan.clone(), plan.clone().with_independent_stages(), with_domains.clone()] {
            let body = body.clone();
            let (executor, log) = executor(move |_| response(&body));
            let done = executor.execute(&object("subject"), &plan).await;
            assert!(!done.succeeded());
            assert_eq!((done.steps.len(), log.requests().len()), (MAX_IN_FLIGHT_WRITES, MAX_IN_FLIGHT_WRITES));
        }
    }
}

#[tokio::test]
async fn a_namespace_that_terminates_during_a_plan_gets_no_further_creates_than_those_in_flight() {
    let [terminating, _] = rejections();
    let (executor, log) = executor(move |request| match request.body["metadata"]["name"].as_str() {
        Some("m0") => MockResponse::ok(request.body.clone()),
        _ => response(&terminating),
    });
    let plan = Plan::new().stage(Stage::new("s", creates(0..200)));
    assert!(!executor.execute(&object("subject"), &plan).await.succeeded());
    let sent = log.requests().len();
    assert!(sent <= 1 + MAX_IN_FLIGHT_WRITES, "{sent} requests");
}

#[tokio::test(start_paused = true)]
async fn no_event_about_an_object_in_a_terminating_namespace_is_published() {
    let (client, log) = mock_api_server::client(|request| MockResponse::ok(request.body.clone()));
    let broadcaster = EventBroadcaster::start(client.clone(), "some-service");
    let executor = Executor::new(client, broadcaster.clone(), Metrics::new().unwrap());
    let events = || log.count(|request| request.path.contains("/events"));
    let (cache, namespaces) = Cache::with_writer(InformerOptions::<SlimNamespace>::default());
    broadcaster.skip_terminating_namespaces(TerminatingNamespaces::new(cache));
    let stage = Stage::new("scale-in", [Step::delete(&object("a"))]).with_event("Deleted", "DeleteFailed", "Deleted");
    let plan = Plan::new().stage(stage);
    let publish = async || {
        assert!(executor.execute(&object("subject"), &plan).await.succeeded());
        broadcaster.flush().await;
    };
    publish().await;
    assert_eq!(events(), 1);
    let mut namespace = SlimNamespace { is_terminating: true, ..SlimNamespace::default() };
    namespace.metadata.name = Some("ns".into());
    namespaces.apply(namespace);
    publish().await;
    assert_eq!(events(), 1);
}
