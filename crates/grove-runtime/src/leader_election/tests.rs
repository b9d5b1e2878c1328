//! Leader election between replicas, against a mock API server with one Lease. Time is paused: only the tests advance it.

use std::sync::Arc;

use futures::channel::mpsc;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use tokio_util::sync::CancellationToken;

mod fuzzed_leases;

/// A mock API server that stores one Lease.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<ServerState>>);

#[derive(Default)]
struct ServerState {
    lease: Option<Value>,
    version: u32,
    watchers: Vec<mpsc::UnboundedSender<Value>>,
    /// Each connection breaks before a response.
    is_unreachable: bool,
    /// Writes take effect, but their responses are lost.
    loses_responses: bool,
}

impl ServerState {
    fn respond(&mut self, request: &RecordedRequest) -> MockResponse {
        if self.is_unreachable {
            return MockResponse::ConnectionReset;
        }
        let response = match (&*request.method, &self.lease) {
            ("GET", _) if request.is_watch() => {
                let (events, watch) = mpsc::unbounded();
                self.watchers.push(events);
                return MockResponse::LiveWatch(watch);
            }
            ("GET", Some(lease)) => return MockResponse::ok(lease.clone()),
            ("GET" | "PUT", None) => return MockResponse::error(404, "NotFound"),
            ("POST", Some(_)) => MockResponse::error(409, "AlreadyExists"),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] != request.body["metadata"]["resourceVersion"] =>
            {
                MockResponse::error(409, "Conflict")
            }
            _ => MockResponse::ok(self.store(request.body.clone())),
        };
        if self.loses_responses { MockResponse::ConnectionReset } else { response }
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.notify("MODIFIED", &lease);
        self.lease = Some(lease.clone());
        lease
    }

    fn notify(&mut self, type_: &str, lease: &Value) {
        let event = json!({ "type": type_, "object": lease });
        self.watchers.retain(|watcher| watcher.unbounded_send(event.clone()).is_ok());
    }
}

impl Server {
    fn with<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        change(&mut self.0.lock())
    }

    fn spec(&self) -> Value {
        self.with(|state| state.lease.as_ref().map_or(Value::Null, |lease| lease["spec"].clone()))
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

/// One replica on its own task.
struct Replica {
    leadership: Leadership,
    metrics: Metrics,
    released: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), LeadershipLost>>,
    log: RequestLog,
}

impl Replica {
    fn start(server: &Server, identity: &str) -> Self {
        Self::configured(server, identity, &LeaderElection::default())
    }

    fn configured(server: &Server, identity: &str, election: &LeaderElection) -> Self {
        let server = server.clone();
        let (client, log) = mock_api_server::client(move |request| server.with(|state| state.respond(request)));
        let (leadership, metrics, released) =
            (Leadership::standby(), Metrics::new().unwrap(), CancellationToken::new());
        let lock = LeaseLock { client, namespace: "grove-system".into(), service: "svc".into() };
        let elector = LeaderElector::new(lock, identity, election, leadership.clone(), metrics.clone());
        let running = tokio::spawn(elector.run(released.clone().cancelled_owned()));
        Self { leadership, metrics, released, running, log }
    }

    async fn wait_until_leading(&self) {
        Box::pin(self.leadership.started_leading()).next().await;
    }

    fn crash(&self) {
        self.running.abort();
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_creates_the_lease_and_renews_it() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let first = server.spec();
    assert_eq!(
        (&first["holderIdentity"], &first["leaseDurationSeconds"], &first["leaseTransitions"]),
        (&json!("a"), &json!(15), &json!(0))
    );
    seconds(60).await;
    assert!(a.leadership.is_held());
    let writes = a.log.count(|request| request.method == "PUT");
    assert!((28..=30).contains(&writes), "{writes} renewals in a minute");
    let renewed = server.spec();
    assert_eq!((&renewed["acquireTime"], &renewed["leaseTransitions"]), (&first["acquireTime"], &json!(0)));
    let metrics = a.metrics.render().unwrap();
    assert!(metrics.contains(r#"leader_election_master_status{name="svc"} 1"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn exactly_one_standby_acquires_a_released_lease_immediately() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let others = ["b", "c", "d"].map(|identity| Replica::start(&server, identity));
    seconds(60).await;
    assert!(others.iter().all(|other| !other.leadership.is_held()));
    let released = Instant::now();
    a.released.cancel();
    assert_eq!(a.running.await.unwrap(), Ok(()));
    let taken = futures::future::select_all(others.iter().map(|other| Box::pin(other.wait_until_leading())));
    let ((), _, rest) = taken.await;
    drop(rest);
    assert_eq!(released.elapsed(), Duration::ZERO, "the standbys wait for no timer");
    seconds(60).await;
    assert_eq!(others.iter().filter(|other| other.leadership.is_held()).count(), 1);
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_standby_acquires_the_lease_of_a_crashed_leader_only_after_it_expired() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let b = Replica::start(&server, "b");
    seconds(7).await;
    a.crash();
    let crashed = Instant::now();
    b.wait_until_leading().await;
    let waited = crashed.elapsed();
    assert!((13..=15).contains(&waited.as_secs()), "{waited:?}");
    assert!(!a.leadership.is_held());
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_standby_sends_no_requests_while_the_leader_renews() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let b = Replica::start(&server, "b");
    seconds(600).await;
    assert!(!b.leadership.is_held());
    assert_eq!(b.log.methods_and_names(), ["GET svc", "GET leases"], "one get and one watch");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_replica_with_the_same_identity_resumes_its_lease_immediately() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    a.crash();
    let crashed = Instant::now();
    let again = Replica::start(&server, "a");
    again.wait_until_leading().await;
    assert_eq!((crashed.elapsed(), &server.spec()["leaseTransitions"]), (Duration::ZERO, &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_api_server_stops_in_time_and_resumes_if_no_replica_took_over() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    server.with(|state| state.is_unreachable = true);
    let outage = Instant::now();
    a.leadership.stopped_leading().await;
    assert!(outage.elapsed() <= Duration::from_secs(10), "{:?}", outage.elapsed());
    seconds(300).await;
    let metrics = a.metrics.render().unwrap();
    assert!(metrics.contains(r#"leader_election_master_status{name="svc"} 0"#), "{metrics}");
    server.with(|state| state.is_unreachable = false);
    a.wait_until_leading().await;
    assert!(!a.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_leader_ends_when_another_replica_holds_the_lease() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    server.with(|state| {
        let lease = state.lease.clone().unwrap();
        state.store(
            json!({ "metadata": lease["metadata"], "spec": { "holderIdentity": "b", "leaseDurationSeconds": 15 } }),
        )
    });
    let lost = a.running.await.unwrap().unwrap_err();
    assert_eq!(lost, LeadershipLost::TakenOver { lease: "svc".into(), holder: "b".into() });
    assert!(!a.leadership.is_held());
    assert_eq!(server.holder(), "b", "the process that lost the lease does not touch it");
}

#[tokio::test(start_paused = true)]
async fn the_older_of_two_replicas_with_the_same_identity_ends() {
    let server = Server::default();
    let (older, newer) = (Replica::start(&server, "a"), async {
        seconds(1).await;
        Replica::start(&server, "a")
    });
    older.wait_until_leading().await;
    let newer = newer.await;
    newer.wait_until_leading().await;
    let lost = older.running.await.unwrap().unwrap_err();
    assert_eq!(lost, LeadershipLost::DuplicateIdentity { lease: "svc".into(), identity: "a".into() });
    seconds(60).await;
    assert!(newer.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_with_a_lost_response_is_recognized_as_an_own_write() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    server.with(|state| state.loses_responses = true);
    seconds(5).await;
    server.with(|state| state.loses_responses = false);
    seconds(60).await;
    assert!(a.leadership.is_held() && !a.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_restored_from_a_backup_is_renewed_by_its_holder() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let backup = server.with(|state| (state.lease.clone(), state.version));
    seconds(7).await;
    server.with(|state| (state.lease, state.version) = backup);
    seconds(30).await;
    assert!(a.leadership.is_held() && !a.running.is_finished());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_lease_by_another_client_does_not_end_the_leadership() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    server.with(|state| {
        let mut lease = state.lease.clone().unwrap();
        lease["metadata"]["labels"] = json!({ "team": "x" });
        state.store(lease)
    });
    seconds(60).await;
    assert!(a.leadership.is_held());
    assert_eq!(server.with(|state| state.lease.clone().unwrap()["metadata"]["labels"]["team"].clone()), "x");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_recreated_by_its_holder() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    server.with(|state| {
        let lease = state.lease.take().unwrap();
        state.notify("DELETED", &lease);
    });
    seconds(60).await;
    assert!(a.leadership.is_held() && !b.leadership.is_held());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_standby_waits_for_the_lease_duration_of_the_holder_not_its_own() {
    let server = Server::default();
    let long = LeaderElection { lease_duration: Duration::from_mins(1), ..LeaderElection::default() };
    let a = Replica::configured(&server, "a", &long);
    a.wait_until_leading().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    a.crash();
    seconds(50).await;
    assert!(!b.leadership.is_held());
    b.wait_until_leading().await;
}

#[test]
fn a_forbidden_request_names_the_missing_permission() {
    for (code, reason, expected) in [
        (403, "Forbidden", "403 Forbidden: the server returned Forbidden; the account of this service lacks a rule"),
        (409, "Conflict", "409 Conflict: the server returned Conflict"),
    ] {
        let status = serde_json::from_value(mock_api_server::status(code, reason)).unwrap();
        assert_eq!(api_error(&kube::Error::Api(Box::new(status))).to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_requests_are_retried_once_per_retry_period() {
    let (client, log) = mock_api_server::client(|_| MockResponse::error(403, "Forbidden"));
    let leadership = Leadership::standby();
    let lock = LeaseLock { client, namespace: "grove-system".into(), service: "svc".into() };
    let metrics = Metrics::new().unwrap();
    let elector = LeaderElector::new(lock, "a", &LeaderElection::default(), leadership.clone(), metrics);
    let _ = timeout(Duration::from_mins(1), elector.run(std::future::pending())).await;
    assert!(!leadership.is_held());
    assert!((25..=31).contains(&log.requests().len()), "{} requests in a minute", log.requests().len());
}

#[tokio::test(start_paused = true)]
async fn a_configured_name_is_a_prefix_and_a_configured_namespace_is_used() {
    let server = Server::default();
    let election = LeaderElection {
        resource_name: Some("grove-operator-leader-election".into()),
        resource_namespace: Some("other".into()),
        ..LeaderElection::default()
    };
    let a = Replica::configured(&server, "a", &election);
    a.wait_until_leading().await;
    let expected = "/apis/coordination.k8s.io/v1/namespaces/other/leases/grove-operator-leader-election-svc";
    assert_eq!(a.log.requests()[0].path, expected);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_never_led_does_not_write_the_lease_when_it_ends() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wait_until_leading().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    b.released.cancel();
    assert_eq!(b.running.await.unwrap(), Ok(()));
    assert_eq!(b.log.count(|request| request.method == "PUT"), 0);
    assert_eq!(server.holder(), "a");
}
