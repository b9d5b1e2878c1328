//! Certificates and CAs change every few seconds, the webhook servers restart one after the other, and clients create sets
//! all the time: no request fails.

pub(super) mod new_connections;

use grove_api_types::SYSTEM_NAMESPACE;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, TestCluster, fixtures, namespace_state::TIMEOUT, test_cluster};
use futures::StreamExt;
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use new_connections::NewConnections;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The period of certificates and CAs. The API server learns about a new CA by a watch and has a quarter of the period for
/// that, also on a busy or slow machine.
const PERIOD: &str = "8s";
/// The period in the soak test, on an otherwise idle machine.
const SOAK_PERIOD: &str = "2s";
const REPLICAS: [&str; 2] = ["webhook-server", "webhook-server-1"];
/// Clients that create sets concurrently.
const CLIENTS: usize = 4;

/// Takes long: certificates are rotated four times, and on a slow machine a rotation must end before the next one.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_certificates_rotate_and_replicas_restart() {
    no_request_fails("rotation", PERIOD, (4, 1)).await;
}

/// `cargo xtask soak rotation` runs it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the number of rotations decides how long it takes"]
async fn no_request_fails_during_many_rotations() {
    let count = test_cluster::required_number;
    let (rotations, restarts) = (count("GROVE_SOAK_ROTATIONS"), count("GROVE_SOAK_RESTARTS"));
    no_request_fails("soak-rotation", SOAK_PERIOD, (rotations, restarts)).await;
}

async fn no_request_fails(name: &str, period: &str, (rotations, restarts): (usize, usize)) {
    let cluster = TestCluster::with_own_services(name, &["--replicas", "2"]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-rotation").await;
    let mut replicas = Vec::new();
    for replica in REPLICAS {
        let flags = ["--certificate-period", period, "--ca-period", period];
        replicas.push(ServiceReplica::take_over(&cluster, replica, &flags).await);
    }
    let load = Load::start(&ns);
    let connections = NewConnections::start(&cluster, &client);
    // Requests during the restarts count as well.
    let (seen, ()) = tokio::join!(rotated(&client, rotations), async {
        for _ in 0..restarts {
            for replica in &mut replicas {
                let before = load.succeeded();
                replica.restart().await;
                load.wait_for_successes(before + CLIENTS).await;
            }
        }
    });
    let (trusted, untrusted) = connections.stop().await;
    assert!(trusted > rotations && untrusted.is_empty(), "{trusted} trusted connections, untrusted: {untrusted:#?}");
    let (succeeded, failed) = load.stop().await;
    println!("{succeeded} sets, {} certificates of {} CAs", seen.certificates.len(), seen.cas.len());
    assert!(failed.is_empty(), "{} requests failed, {succeeded} succeeded: {failed:#?}", failed.len());
    drop(replicas);
    cluster.down().await;
}

/// The different certificates and CA bundles in the Secret.
#[derive(Default)]
struct SecretHistory {
    certificates: BTreeSet<Vec<u8>>,
    cas: BTreeSet<Vec<u8>>,
}

/// Waits until certificate and CA bundle have changed this often.
async fn rotated(client: &Client, times: usize) -> SecretHistory {
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let config = watcher::Config::default().fields("metadata.name=grove-webhook-server-cert");
    let mut secrets = watcher(secrets, config).default_backoff().applied_objects().boxed();
    let mut seen = SecretHistory::default();
    while seen.certificates.len() <= times || seen.cas.len() <= times {
        let next = tokio::time::timeout(TIMEOUT, secrets.next()).await.expect("the Secret changes");
        let data = next.expect("a watch").expect("a Secret").data.unwrap_or_default();
        seen.certificates.insert(data["tls.crt"].0.clone());
        seen.cas.insert(data["ca.crt"].0.clone());
    }
    seen
}

/// Concurrent dry-run creates of a set.
pub(super) struct Load {
    succeeded: watch::Sender<usize>,
    stopped: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(super) fn start(ns: &Namespace) -> Self {
        let (succeeded, stopped) = (watch::Sender::default(), Arc::new(AtomicBool::new(false)));
        let set: PodCliqueSet = serde_saphyr::from_str(&fixtures::three_cliques("llm", 1)).expect("a set");
        let clients = (0..CLIENTS).map(|_| {
            let (api, set) = (ns.api::<PodCliqueSet>(), set.clone());
            let (succeeded, stopped) = (watch::Sender::clone(&succeeded), Arc::clone(&stopped));
            tokio::spawn(async move {
                let dry = PostParams { dry_run: true, ..PostParams::default() };
                let mut failed = Vec::new();
                while !stopped.load(Ordering::SeqCst) {
                    match api.create(&dry, &set).await {
                        Ok(_) => succeeded.send_modify(|count| *count += 1),
                        Err(error) => failed.push(error.to_string()),
                    }
                }
                failed
            })
        });
        Self { clients: clients.collect(), succeeded, stopped }
    }

    pub(super) fn succeeded(&self) -> usize {
        *self.succeeded.borrow()
    }

    /// Waits until the count of successful requests reaches `count`.
    pub(super) async fn wait_for_successes(&self, count: usize) {
        let mut succeeded = self.succeeded.subscribe();
        let waiting = succeeded.wait_for(|succeeded| *succeeded >= count);
        tokio::time::timeout(TIMEOUT, waiting).await.expect("enough requests succeed").expect("the clients run");
    }

    /// Stops the clients. Returns the number of successful requests and the errors of the failed ones.
    pub(super) async fn stop(self) -> (usize, Vec<String>) {
        self.stopped.store(true, Ordering::SeqCst);
        let failed = join_all(self.clients).await.into_iter().flat_map(|failed| failed.expect("a client"));
        let failed = failed.collect();
        (*self.succeeded.borrow(), failed)
    }
}
