//! Certificates change every few seconds, and the replicas that serve them are restarted one after the other, while sets are
//! created all the time: nobody notices.

mod new_connections;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::replicas::Replica;
use e2e::{Namespace, Plane, plane, sets, world::LIMIT};
use futures::StreamExt;
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use new_connections::Newcomer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// After so long both the certificate and its authority are followed by others. A quarter of that the API server has to hear of
/// a new authority, which it does by a watch of its own, on a machine that is busy or slow too.
const PACE: &str = "8s";
/// The same, where nothing else is done on the machine.
const FAST: &str = "2s";
const REPLICAS: [&str; 2] = ["webhook-server", "webhook-server-1"];
/// Sets that are being created at a time.
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_certificates_rotate_and_replicas_restart() {
    no_request_is_lost("rotation", PACE, (4, 1)).await;
}

/// Run by `cargo xtask soak rotation`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes as long as it is told to"]
async fn no_request_fails_during_many_rotations() {
    let count = |variable: &str| plane::given(variable).parse().expect("a number");
    let (rotations, restarts) = (count("GROVE_SOAK_ROTATIONS"), count("GROVE_SOAK_RESTARTS"));
    no_request_is_lost("soak-rotation", FAST, (rotations, restarts)).await;
}

async fn no_request_is_lost(name: &str, pace: &str, (rotations, restarts): (usize, usize)) {
    let plane = Plane::own_with(name, &["--replicas", "2"]).await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-rotation").await;
    let mut replicas = Vec::new();
    for replica in REPLICAS {
        let pace = ["--certificate-period", pace, "--ca-period", pace];
        replicas.push(Replica::take_over(&plane, replica, &pace).await);
    }
    let load = Load::start(&ns);
    let newcomer = Newcomer::start(&plane, &client);
    // The seconds in which replicas were restarted count as well.
    let (seen, ()) = tokio::join!(rotated(&client, rotations), async {
        for _ in 0..restarts {
            for replica in &mut replicas {
                let before = load.answered();
                replica.restart().await;
                load.until_answered(before + CLIENTS).await;
            }
        }
    });
    let (welcome, distrusted) = newcomer.end().await;
    assert!(welcome > rotations && distrusted.is_empty(), "{welcome} times trusted, and not: {distrusted:#?}");
    let (answered, failed) = load.end().await;
    println!("{answered} sets, {} certificates of {} authorities", seen.certificates.len(), seen.authorities.len());
    assert!(failed.is_empty(), "{} of {answered} requests failed: {failed:#?}", failed.len());
    drop(replicas);
    plane.down().await;
}

/// What the Secret held, one after the other.
#[derive(Default)]
struct Seen {
    certificates: BTreeSet<Vec<u8>>,
    authorities: BTreeSet<Vec<u8>>,
}

/// Waits until certificate and authority have changed so often.
async fn rotated(client: &Client, times: usize) -> Seen {
    let secrets = Api::<Secret>::namespaced(client.clone(), "grove-system");
    let config = watcher::Config::default().fields("metadata.name=grove-webhook-server-cert");
    let mut secrets = watcher(secrets, config).default_backoff().applied_objects().boxed();
    let mut seen = Seen::default();
    while seen.certificates.len() <= times || seen.authorities.len() <= times {
        let next = tokio::time::timeout(LIMIT, secrets.next()).await.expect("the certificate changes");
        let data = next.expect("a watch").expect("a Secret").data.unwrap_or_default();
        seen.certificates.insert(data["tls.crt"].0.clone());
        seen.authorities.insert(data["ca.crt"].0.clone());
    }
    seen
}

/// Sets that are created without being kept, by several clients at a time.
pub(super) struct Load {
    answered: watch::Sender<usize>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(super) fn start(ns: &Namespace) -> Self {
        let (answered, over) = (watch::Sender::default(), Arc::new(AtomicBool::new(false)));
        let set: PodCliqueSet = serde_saphyr::from_str(&sets::three_cliques("llm", 1)).expect("a set");
        let clients = (0..CLIENTS).map(|_| {
            let (api, set) = (ns.api::<PodCliqueSet>(), set.clone());
            let (answered, over) = (watch::Sender::clone(&answered), Arc::clone(&over));
            tokio::spawn(async move {
                let dry = PostParams { dry_run: true, ..PostParams::default() };
                let mut failed = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    match api.create(&dry, &set).await {
                        Ok(_) => answered.send_modify(|count| *count += 1),
                        Err(error) => failed.push(error.to_string()),
                    }
                }
                failed
            })
        });
        Self { clients: clients.collect(), answered, over }
    }

    pub(super) fn answered(&self) -> usize {
        *self.answered.borrow()
    }

    /// Waits for further answers, so that none is missing only because nobody asked.
    pub(super) async fn until_answered(&self, count: usize) {
        let mut answered = self.answered.subscribe();
        let waiting = answered.wait_for(|answered| *answered >= count);
        tokio::time::timeout(LIMIT, waiting).await.expect("requests are answered").expect("there are clients");
    }

    /// How many were answered, and what was said to those that were not.
    pub(super) async fn end(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::SeqCst);
        let failed = join_all(self.clients).await.into_iter().flat_map(|failed| failed.expect("a client"));
        let failed = failed.collect();
        (*self.answered.borrow(), failed)
    }
}
