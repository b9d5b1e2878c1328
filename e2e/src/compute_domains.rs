//! A stand-in for NVIDIA's DRA driver: it creates the `ResourceClaimTemplate` that a `ComputeDomain` names, and every node has one channel.
//! So the real scheduler allocates the claims, and pods with the claim of a domain run.

use futures::StreamExt;
use grove_api_types::compute_domain::ComputeDomain;
use grove_dev_harness::compute_domain_channels::{self, CHANNELS};
use grove_dev_harness::live_objects::changes;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::namespace::Namespace;

mod history;

pub use history::DomainHistory;

/// The file with the CRD.
pub const CRD_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crds/compute-domain.yaml");
/// The finalizer by which the driver protects its own objects.
pub const DRIVER_FINALIZER: &str = "resource.nvidia.com/computeDomain";
/// The finalizer of Grove.
pub const GROVE_FINALIZER: &str = "grove.io/computedomain-finalizer";

/// Creates the class of channels, and one channel on each node.
///
/// # Panics
/// If the API server rejects one of the objects.
pub async fn install_channels(client: &Client) {
    CHANNELS.install(client, 1).await.expect("the channels");
}

/// The driver of one namespace. It stops when the value is dropped.
pub struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Driver {
    /// Starts to serve the domains of the namespace.
    pub fn start(ns: &Namespace) -> Self {
        let (client, namespace) = (ns.client.clone(), ns.name.clone());
        Self(tokio::spawn(async move {
            let mut changes = Box::pin(changes::<ComputeDomain>(&client, &namespace));
            while let Some(changes) = changes.next().await {
                for domain in changes.into_iter().filter_map(|change| change.object) {
                    serve(&client, &namespace, &domain).await;
                }
            }
        }))
    }
}

/// Adds the driver's finalizer and label, and creates the template; removes the finalizer from a terminating domain. A later watch event
/// repeats what failed.
async fn serve(client: &Client, namespace: &str, domain: &ComputeDomain) {
    let domains = Api::<ComputeDomain>::namespaced(client.clone(), namespace);
    let has_finalizer = domain.finalizers().iter().any(|finalizer| finalizer == DRIVER_FINALIZER);
    let is_terminating = domain.metadata.deletion_timestamp.is_some();
    if has_finalizer == is_terminating {
        let others = domain.finalizers().iter().filter(|finalizer| *finalizer != DRIVER_FINALIZER);
        let own = (!is_terminating).then(|| DRIVER_FINALIZER.to_owned());
        let finalizers: Vec<_> = others.cloned().chain(own).collect();
        let patch = json!({ "metadata": { "resourceVersion": domain.resource_version(), "finalizers": finalizers,
            "labels": { "resource.nvidia.com/driver": "e2e" } } });
        // A conflict has a watch event.
        drop(domains.patch(&domain.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await);
    }
    if !is_terminating {
        let owner = domain.owner_ref(&()).expect("the domain has a UID");
        drop(
            compute_domain_channels::create_claim_template(client, namespace, domain.claim_template(), Some(owner))
                .await,
        );
    }
}
