//! The least that a daemon can do: it knows its index, and sends two bare patches of the object of its clique, one with its entry, and one
//! after its pod is Ready. It has the same watches as a daemon, and no decision to make.

use compute_domain_daemon::watches;
use futures::{StreamExt, stream};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon::{ImexChange, Input};
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::{self, Entry, Readiness};
use grove_api_types::compute_domain::strategy::Strategy;
use grove_process::client::Clients;
use http::header::CONTENT_TYPE;
use kube::{Client, Resource};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

/// The strategy whose watches the floor has.
pub(super) const STRATEGY: Strategy = Strategy::RmwClique;
const RETRY: Duration = Duration::from_millis(5);

/// Runs until the future is dropped. The receiver of `imex` is the IMEX process.
pub(super) async fn run(identity: &Identity, clients: &Clients, imex: &UnboundedSender<ImexChange>) {
    let of_pod = watches::own_pod(&clients.watches, identity);
    let of_clique = watches::entries(&clients.watches, identity, STRATEGY);
    let mut inputs = Box::pin(stream::select(of_pod, of_clique));
    let entry = own_entry(identity);
    let (add, path) = (json!([{ "op": "add", "path": "/daemons/-", "value": entry }]), clique_path(identity));
    let position = send(&clients.requests, &path, &add, &entry.node_name).await;
    let ready = json!([{ "op": "replace", "path": format!("/daemons/{position}/status"), "value": Readiness::Ready }]);
    let mut is_ready = false;
    while let Some(input) = inputs.next().await {
        if let Input::ObjectChanged(object) = &input
            && entry::of_node(object.entries(), &entry.node_name).is_some()
        {
            let mut peers = object.entries().to_vec();
            peers.sort_by_key(|peer| peer.index);
            // Without a receiver, the round is over.
            drop(imex.send(ImexChange::Peers { peers, has_new: true }));
        }
        if matches!(input, Input::PodChanged { is_ready: true, .. }) && !std::mem::replace(&mut is_ready, true) {
            send(&clients.requests, &path, &ready, &entry.node_name).await;
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

fn clique_path(identity: &Identity) -> String {
    let collection = ComputeDomainClique::url_path(&(), Some(&identity.driver_namespace));
    format!("{collection}/{}", identity.clique_object_name())
}

/// Sends a JSON patch until it succeeds. Returns the position of the node's entry in the list.
async fn send(client: &Client, url: &str, operations: &Value, node: &str) -> usize {
    loop {
        let request = http::Request::patch(url).header(CONTENT_TYPE, "application/json-patch+json");
        // The parts of the request are valid.
        let request = request.body(operations.to_string().into_bytes()).unwrap_or_default();
        let patched = client.request::<ComputeDomainClique>(request).await;
        let position = |clique: ComputeDomainClique| clique.daemons.iter().position(|entry| entry.node_name == node);
        if let Some(position) = patched.ok().and_then(position) {
            return position;
        }
        sleep(RETRY).await;
    }
}
