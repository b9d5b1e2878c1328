//! The least that a daemon can do with the objects of cliques: it knows its index, and sends two bare patches of the object of its clique, one
//! with its entry, and one after its pod is Ready. It has the watches of a daemon, and no decision to make.

use compute_domain_daemon::metrics::DaemonMetrics;
use compute_domain_daemon::watches;
use futures::{StreamExt, stream};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon::{ImexChange, Input};
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::{self, Entry, Readiness};
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::retry_delay;
use grove_process::api_error::ApiError;
use grove_process::backoff::random_fraction;
use grove_process::client::{Clients, REQUEST_TIMEOUT, with_timeout};
use http::header::CONTENT_TYPE;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::sleep;

/// The strategy whose watches the floor has.
pub(super) const STRATEGY: Strategy = Strategy::RmwClique;

/// Runs until the future is dropped. The receiver of `imex` is the IMEX process.
pub(super) async fn run(
    identity: &Identity,
    clients: &Clients,
    metrics: &DaemonMetrics,
    imex: &UnboundedSender<ImexChange>,
) {
    let entry = own_entry(identity);
    let (is_ready, mut ready) = watch::channel(false);
    let requests = Requests { client: &clients.requests, metrics, url: clique_url(identity), node: &entry.node_name };
    let writes = async {
        let position = requests.send(&json!([{ "op": "add", "path": "/daemons/-", "value": entry }])).await;
        // The sender lives as long as the watches.
        drop(ready.wait_for(|is_ready| *is_ready).await);
        let path = format!("/daemons/{position}/status");
        requests.send(&json!([{ "op": "replace", "path": path, "value": Readiness::Ready }])).await;
    };
    tokio::join!(watch(identity, clients, imex, &is_ready), writes);
}

/// Lets IMEX know its peers when one of their addresses changes, as a daemon does.
async fn watch(
    identity: &Identity,
    clients: &Clients,
    imex: &UnboundedSender<ImexChange>,
    is_ready: &watch::Sender<bool>,
) {
    let of_pod = watches::own_pod(&clients.watches, identity);
    let of_clique = watches::entries(&clients.watches, identity, STRATEGY);
    let mut inputs = Box::pin(stream::select(of_pod, of_clique));
    let mut known: Vec<(i64, String)> = Vec::new();
    while let Some(input) = inputs.next().await {
        if matches!(input, Input::PodChanged { is_ready: true, .. }) {
            is_ready.send_replace(true);
        }
        let Input::ObjectChanged(object) = input else { continue };
        let mut peers = object.entries().to_vec();
        peers.sort_by_key(|peer| peer.index);
        let addresses: Vec<_> = peers.iter().map(|peer| (peer.index, peer.ip_address.clone())).collect();
        if entry::of_node(&peers, &identity.node).is_some() && addresses != known {
            known = addresses;
            // Without a receiver, the round is over.
            drop(imex.send(ImexChange::Peers { peers, has_new: true }));
        }
    }
}

/// The number of the tray is the index.
fn own_entry(identity: &Identity) -> Entry {
    let index = identity.node.rsplit_once('-').and_then(|(_, tray)| tray.parse().ok()).unwrap_or_default();
    Entry {
        node_name: identity.node.clone(),
        ip_address: identity.pod_ip.clone(),
        clique_id: identity.clique.clone(),
        index,
        status: Readiness::NotReady,
    }
}

fn clique_url(identity: &Identity) -> String {
    let collection = ComputeDomainClique::url_path(&(), Some(&identity.driver_namespace));
    format!("{collection}/{}", identity.clique_object_name())
}

/// The requests of one node.
struct Requests<'a> {
    client: &'a Client,
    metrics: &'a DaemonMetrics,
    url: String,
    node: &'a str,
}

impl Requests<'_> {
    /// Sends a JSON patch until it succeeds, with the delays of a daemon. Returns the position of the node's entry in the list.
    async fn send(&self, operations: &Value) -> usize {
        let mut failures = 0;
        loop {
            let request = http::Request::patch(&self.url).header(CONTENT_TYPE, "application/json-patch+json");
            let error = match self.request(request, operations.to_string().into_bytes()).await {
                Ok(clique) => {
                    self.metrics.record_request("patch", "ComputeDomainClique", "success");
                    return self.position(&clique).unwrap_or_default();
                }
                Err(error) => error,
            };
            self.metrics.record_request("patch", "ComputeDomainClique", &error.code.to_string());
            if error.code == 422 {
                // A list has one entry per node. So the response to an earlier attempt was lost.
                let stored = self.request(http::Request::get(&self.url), Vec::new()).await;
                if let Some(position) = stored.ok().and_then(|clique| self.position(&clique)) {
                    return position;
                }
            }
            sleep(error.retry_after.unwrap_or_else(|| retry_delay(failures, random_fraction() * 2.0 - 1.0))).await;
            failures += 1;
        }
    }

    async fn request(&self, request: http::request::Builder, body: Vec<u8>) -> Result<ComputeDomainClique, ApiError> {
        // The parts of the request are valid.
        let request = request.body(body).unwrap_or_default();
        let response = with_timeout(REQUEST_TIMEOUT, self.client.request::<ComputeDomainClique>(request)).await;
        response.map_err(|error| ApiError::from(&error))
    }

    fn position(&self, clique: &ComputeDomainClique) -> Option<usize> {
        clique.daemons.iter().position(|it| it.node_name == self.node)
    }
}
