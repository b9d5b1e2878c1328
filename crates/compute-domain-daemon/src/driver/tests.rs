//! One daemon with a mock API server: from its start to the removal of its entry.

use std::time::Duration;

use futures::channel::mpsc::UnboundedSender as EventSender;
use futures::channel::mpsc::unbounded;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::test_fixtures::identity;

/// Stores the clique that a daemon writes, and sends the watch event.
fn write(request: &RecordedRequest, events: &EventSender<Input>) -> MockResponse {
    if request.path.contains("/pods/") {
        return MockResponse::ok(json!({ "metadata": {} }));
    }
    let mut clique = request.body.clone();
    let version = clique["metadata"]["resourceVersion"].as_str().map_or(0, |version| version.parse().unwrap());
    clique["metadata"]["resourceVersion"] = json!((version + 1_u32).to_string());
    let decoded: ComputeDomainClique = serde_json::from_value(clique.clone()).unwrap();
    events.unbounded_send(Input::ObjectChanged(decoded.into())).unwrap();
    MockResponse::ok(clique)
}

/// A daemon with `rmw-clique`, which stops when IMEX has started. Returns its requests, and how long it took until IMEX started.
async fn run_once(
    script: impl Fn(&RecordedRequest, &EventSender<Input>) -> MockResponse + Send + Sync + 'static,
) -> (RequestLog, Duration) {
    let (events, inputs) = unbounded();
    // The first list of the watch.
    events.unbounded_send(Input::ObjectDeleted).unwrap();
    let (client, log) = mock_api_server::client(move |request| script(request, &events));
    let api = Api::new(client, DaemonMetrics::new().unwrap());
    let (stop, (changes, mut received)) = (CancellationToken::new(), unbounded_channel());
    let daemon = Daemon::new(identity(), Strategy::RmwClique);
    let began = Instant::now();
    let started = async {
        let change = received.recv().await.unwrap();
        let ImexChange::Start(peers) = change else { panic!("{change:?}") };
        assert_eq!((peers.len(), peers[0].index, peers[0].node_name.as_str()), (1, 0, "node-0"));
        stop.cancel();
        began.elapsed()
    };
    let ((), elapsed) = tokio::join!(drive(daemon, inputs, &api, &changes, &stop), started);
    (log, elapsed)
}

#[tokio::test(start_paused = true)]
async fn a_daemon_registers_starts_imex_and_removes_its_entry() {
    let (log, elapsed) = run_once(write).await;
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    let clique = "1a2b3c4d-0000-4000-8000-000000000000.fabric.7";
    let expected = ["PATCH daemon-0", "POST computedomaincliques", &format!("PUT {clique}"), &format!("PUT {clique}")];
    assert_eq!(log.methods_and_names(), expected);
    assert_eq!(log.requests()[3].body.get("daemons"), None, "the entry is removed");
}

#[tokio::test(start_paused = true)]
async fn the_api_server_delays_a_retry() {
    let is_rejected = std::sync::atomic::AtomicBool::new(false);
    let (log, elapsed) = run_once(move |request, events| {
        let is_first = request.method == "PUT" && !is_rejected.swap(true, std::sync::atomic::Ordering::SeqCst);
        if !is_first {
            return write(request, events);
        }
        MockResponse::Json(429, overloaded())
    })
    .await;
    assert_eq!(log.count(|request| request.method == "PUT"), 3);
    assert!((30..31).contains(&elapsed.as_secs()), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_ends_waits_for_no_retry() {
    let (events, inputs) = unbounded();
    events.unbounded_send(Input::ObjectDeleted).unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let (client, log) = mock_api_server::client(move |request| {
        if request.method != "PUT" || stopped.is_cancelled() {
            return write(request, &events);
        }
        MockResponse::Json(429, overloaded())
    });
    let (api, (changes, _received)) = (Api::new(client, DaemonMetrics::new().unwrap()), unbounded_channel());
    let began = Instant::now();
    // The retry waits for 30 seconds, and the daemon ends before.
    let end = async {
        sleep(Duration::from_secs(10)).await;
        stop.cancel();
    };
    tokio::join!(drive(Daemon::new(identity(), Strategy::RmwClique), inputs, &api, &changes, &stop), end);
    assert_eq!(log.count(|request| request.method == "PUT"), 3, "the rejected one, its retry and the end");
    assert_eq!(began.elapsed().as_secs(), 10);
}

fn overloaded() -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "later",
        "details": { "retryAfterSeconds": 30 } })
}
