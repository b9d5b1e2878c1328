//! Elections between replicas, against a server that keeps one Lease, by a clock that only the test moves.

use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use serde_json::{Value, json};

use super::*;
use crate::{
    scripted::{self, Answer, Asked, Log},
    shutdown::Shutdown,
};

/// A server that keeps one Lease.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lease: Option<Value>,
    version: u32,
    watchers: Vec<mpsc::UnboundedSender<Value>>,
    /// Nobody hears from it.
    is_away: bool,
    /// It does what it is asked, and its answers to writes are lost.
    loses_answers: bool,
}

impl Kept {
    fn answer(&mut self, asked: &Asked) -> Answer {
        if self.is_away {
            return Answer::Broken;
        }
        let answer = match (&*asked.method, &self.lease) {
            ("GET", _) if asked.is_watch() => {
                let (events, watch) = mpsc::unbounded();
                self.watchers.push(events);
                return Answer::Live(watch);
            }
            ("GET", Some(lease)) => return Answer::ok(lease.clone()),
            ("GET" | "PUT", None) => return Answer::refusal(404, "NotFound"),
            ("POST", Some(_)) => Answer::refusal(409, "AlreadyExists"),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] != asked.body["metadata"]["resourceVersion"] =>
            {
                Answer::refusal(409, "Conflict")
            }
            _ => Answer::ok(self.keep(asked.body.clone())),
        };
        if self.loses_answers { Answer::Broken } else { answer }
    }

    fn keep(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.tell("MODIFIED", &lease);
        self.lease = Some(lease.clone());
        lease
    }

    fn tell(&mut self, type_: &str, lease: &Value) {
        let event = json!({ "type": type_, "object": lease });
        self.watchers.retain(|watcher| watcher.unbounded_send(event.clone()).is_ok());
    }
}

impl Server {
    fn with<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn spec(&self) -> Value {
        self.with(|kept| kept.lease.as_ref().map_or(Value::Null, |lease| lease["spec"].clone()))
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

/// One replica on its own task.
struct Replica {
    leadership: Leadership,
    metrics: Metrics,
    released: Shutdown,
    running: tokio::task::JoinHandle<Result<(), Lost>>,
    log: Log,
}

impl Replica {
    fn start(server: &Server, identity: &str) -> Self {
        Self::configured(server, identity, &LeaderElection::default())
    }

    fn configured(server: &Server, identity: &str, election: &LeaderElection) -> Self {
        let server = server.clone();
        let (client, log) = scripted::client(move |asked| server.with(|kept| kept.answer(asked)));
        let (leadership, metrics, released) = (Leadership::awaited(), Metrics::new().unwrap(), Shutdown::new());
        let seat = Seat { client, namespace: "grove-system".into(), service: "svc".into() };
        let candidate = Candidate::new(seat, identity, election, leadership.clone(), metrics.clone());
        let running = tokio::spawn(candidate.run(released.asked()));
        Self { leadership, metrics, released, running, log }
    }

    async fn leads(&self) {
        Box::pin(self.leadership.begun()).next().await;
    }

    fn crash(&self) {
        self.running.abort();
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_makes_the_lease_and_renews_it() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let first = server.spec();
    assert_eq!(
        (&first["holderIdentity"], &first["leaseDurationSeconds"], &first["leaseTransitions"]),
        (&json!("a"), &json!(15), &json!(0))
    );
    seconds(60).await;
    assert!(a.leadership.is_held());
    let writes = a.log.count(|asked| asked.method == "PUT");
    assert!((28..=30).contains(&writes), "{writes} renewals in a minute");
    let renewed = server.spec();
    assert_eq!((&renewed["acquireTime"], &renewed["leaseTransitions"]), (&first["acquireTime"], &json!(0)));
    let metrics = a.metrics.render().unwrap();
    assert!(metrics.contains(r#"leader_election_master_status{name="svc"} 1"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once_by_one_of_those_who_stand_by() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let others = ["b", "c", "d"].map(|identity| Replica::start(&server, identity));
    seconds(60).await;
    assert!(others.iter().all(|other| !other.leadership.is_held()));
    let released = Instant::now();
    a.released.ask();
    assert_eq!(a.running.await.unwrap(), Ok(()));
    let taken = futures::future::select_all(others.iter().map(|other| Box::pin(other.leads())));
    let ((), _, rest) = taken.await;
    drop(rest);
    assert_eq!(released.elapsed(), Duration::ZERO, "nobody waited for a timer");
    seconds(60).await;
    assert_eq!(others.iter().filter(|other| other.leadership.is_held()).count(), 1);
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_followed_after_its_lease_expired_and_never_before_it_had_stopped() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let b = Replica::start(&server, "b");
    seconds(7).await;
    a.crash();
    let crashed = Instant::now();
    b.leads().await;
    let waited = crashed.elapsed();
    assert!((13..=15).contains(&waited.as_secs()), "{waited:?}");
    assert!(!a.leadership.is_held());
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn who_stands_by_asks_for_nothing_while_the_leader_renews() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let b = Replica::start(&server, "b");
    seconds(600).await;
    assert!(!b.leadership.is_held());
    assert_eq!(b.log.short(), ["GET svc", "GET leases"], "one look and one watch");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_comes_back_under_its_name_takes_its_lease_up_at_once() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    a.crash();
    let crashed = Instant::now();
    let again = Replica::start(&server, "a");
    again.leads().await;
    assert_eq!((crashed.elapsed(), &server.spec()["leaseTransitions"]), (Duration::ZERO, &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_stops_in_time_and_goes_on_if_nobody_took_over() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    server.with(|kept| kept.is_away = true);
    let away = Instant::now();
    a.leadership.ended().await;
    assert!(away.elapsed() <= Duration::from_secs(10), "{:?}", away.elapsed());
    seconds(300).await;
    let metrics = a.metrics.render().unwrap();
    assert!(metrics.contains(r#"leader_election_master_status{name="svc"} 0"#), "{metrics}");
    server.with(|kept| kept.is_away = false);
    a.leads().await;
    assert!(!a.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_one_ends() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    server.with(|kept| {
        let lease = kept.lease.clone().unwrap();
        kept.keep(
            json!({ "metadata": lease["metadata"], "spec": { "holderIdentity": "b", "leaseDurationSeconds": 15 } }),
        )
    });
    let lost = a.running.await.unwrap().unwrap_err();
    assert_eq!(lost, Lost::Taken { lease: "svc".into(), holder: "b".into() });
    assert!(!a.leadership.is_held());
    assert_eq!(server.holder(), "b", "it is left alone");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_with_one_name_the_older_ends() {
    let server = Server::default();
    let (older, newer) = (Replica::start(&server, "a"), async {
        seconds(1).await;
        Replica::start(&server, "a")
    });
    older.leads().await;
    let newer = newer.await;
    newer.leads().await;
    let lost = older.running.await.unwrap().unwrap_err();
    assert_eq!(lost, Lost::Doubled { lease: "svc".into(), identity: "a".into() });
    seconds(60).await;
    assert!(newer.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_known_again() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    server.with(|kept| kept.loses_answers = true);
    seconds(5).await;
    server.with(|kept| kept.loses_answers = false);
    seconds(60).await;
    assert!(a.leadership.is_held() && !a.running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_set_back_to_an_earlier_time_of_its_holder_is_renewed() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let backup = server.with(|kept| (kept.lease.clone(), kept.version));
    seconds(7).await;
    server.with(|kept| (kept.lease, kept.version) = backup);
    seconds(30).await;
    assert!(a.leadership.is_held() && !a.running.is_finished());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_lease_by_somebody_else_is_no_loss() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    server.with(|kept| {
        let mut lease = kept.lease.clone().unwrap();
        lease["metadata"]["labels"] = json!({ "team": "x" });
        kept.keep(lease)
    });
    seconds(60).await;
    assert!(a.leadership.is_held());
    assert_eq!(server.with(|kept| kept.lease.clone().unwrap()["metadata"]["labels"]["team"].clone()), "x");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_holder() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    server.with(|kept| {
        let lease = kept.lease.take().unwrap();
        kept.tell("DELETED", &lease);
    });
    seconds(60).await;
    assert!(a.leadership.is_held() && !b.leadership.is_held());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_promise_of_the_holder_counts_and_not_that_of_who_waits() {
    let server = Server::default();
    let long = LeaderElection { lease_duration: Duration::from_mins(1), ..LeaderElection::default() };
    let a = Replica::configured(&server, "a", &long);
    a.leads().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    a.crash();
    seconds(50).await;
    assert!(!b.leadership.is_held());
    b.leads().await;
}

#[test]
fn a_refusal_says_what_is_lacking() {
    for (code, reason, expected) in [
        (403, "Forbidden", "403 Forbidden: the server said Forbidden; the account of this service lacks a rule"),
        (409, "Conflict", "409 Conflict: the server said Conflict"),
    ] {
        let status = serde_json::from_value(scripted::status(code, reason)).unwrap();
        assert_eq!(Error::Refused(kube::Error::Api(Box::new(status))).to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_tried_again_without_a_flood() {
    let (client, log) = scripted::client(|_| Answer::refusal(403, "Forbidden"));
    let leadership = Leadership::awaited();
    let seat = Seat { client, namespace: "grove-system".into(), service: "svc".into() };
    let metrics = Metrics::new().unwrap();
    let candidate = Candidate::new(seat, "a", &LeaderElection::default(), leadership.clone(), metrics);
    let _ = timeout(Duration::from_mins(1), candidate.run(std::future::pending())).await;
    assert!(!leadership.is_held());
    assert!((25..=31).contains(&log.all().len()), "{} requests in a minute", log.all().len());
}

#[tokio::test(start_paused = true)]
async fn a_configured_name_is_a_prefix_and_a_configured_namespace_counts() {
    let server = Server::default();
    let election = LeaderElection {
        resource_name: Some("grove-operator-leader-election".into()),
        resource_namespace: Some("elsewhere".into()),
        ..LeaderElection::default()
    };
    let a = Replica::configured(&server, "a", &election);
    a.leads().await;
    let expected = "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases/grove-operator-leader-election-svc";
    assert_eq!(a.log.all()[0].path, expected);
}

#[tokio::test(start_paused = true)]
async fn who_never_led_leaves_the_lease_alone_when_it_ends() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.leads().await;
    let b = Replica::start(&server, "b");
    seconds(1).await;
    b.released.ask();
    assert_eq!(b.running.await.unwrap(), Ok(()));
    assert_eq!(b.log.count(|asked| asked.method == "PUT"), 0);
    assert_eq!(server.holder(), "a");
}
