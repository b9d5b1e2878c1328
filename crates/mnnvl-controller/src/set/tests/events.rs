//! The events of a set: what the executor publishes about a plan.

use grove_controller::events::EventBroadcaster;
use grove_controller::executor::Executor;
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};

use super::*;

/// Type, reason and note of each event about the plan, if the API server rejects all writes of the domain `rejected`.
async fn events_of(observed: &Observed, rejected: &'static str) -> Vec<String> {
    let (client, log) = mock_api_server::client(move |request: &RecordedRequest| {
        let is_of_rejected = request.path.ends_with(rejected) || request.body["metadata"]["name"] == rejected;
        if is_of_rejected { MockResponse::error(403, "Forbidden") } else { MockResponse::ok(request.body.clone()) }
    });
    let broadcaster = EventBroadcaster::start(client.clone(), "mnnvl-controller");
    let executor = Executor::new(client, broadcaster.clone(), Metrics::new().expect("metrics"));
    executor.execute(&observed.set, &plan_of(observed)).await;
    broadcaster.flush().await;
    let events = log.requests().into_iter().filter(|request| request.path.ends_with("/events"));
    let field = |event: &RecordedRequest, name: &str| event.body[name].as_str().unwrap_or_default().to_owned();
    events.map(|event| ["type", "reason", "note"].map(|name| field(&event, name)).join(" ")).collect()
}

#[tokio::test]
async fn created_domains_are_a_normal_event_and_rejected_ones_a_warning_with_their_replica() {
    let mut observed = new(AUTO, 4);
    observed.name_conflicts = vec![conflict("llm-0", None)];
    expect![[r"
        Warning ComputeDomainFailed ComputeDomain llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
        Normal ComputeDomainCreated ComputeDomains llm-1, llm-2 created
        Warning ComputeDomainFailed Failed to create ComputeDomain for replica 3: the server returned Forbidden"]]
    .assert_eq(&events_of(&observed, "llm-3").await.join("\n"));
    assert_eq!(
        events_of(&new(AUTO, 1), "no-domain").await,
        ["Normal ComputeDomainCreated ComputeDomain llm-0 created"]
    );
}

#[tokio::test]
async fn a_restored_domain_causes_an_event_only_if_it_is_rejected_and_a_deleted_one_causes_none() {
    let mut observed = executed(new(AUTO, 3));
    observed.set.spec.replicas = 2;
    for name in ["llm-0", "llm-1"] {
        change(&mut observed, name, |domain| domain.metadata.finalizers = None);
    }
    let rejected = "Warning ComputeDomainFailed patch ComputeDomain llm-1: the server returned Forbidden";
    assert_eq!(events_of(&observed, "llm-1").await, [rejected]);
}
