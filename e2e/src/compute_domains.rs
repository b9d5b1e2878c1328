//! A stand-in for NVIDIA's DRA driver: it creates the `ResourceClaimTemplate` that a `ComputeDomain` names and runs a daemon on each node of
//! the domain, and every node has one channel. So the real scheduler allocates the claims, and pods with the claim of a domain run.

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, stream};
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_dev_harness::compute_domain_channels::{self, CHANNELS, DAEMONS};
use grove_dev_harness::devices::create;
use grove_dev_harness::live_objects::{Kind, changes};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::namespace::Namespace;

mod daemon;
mod history;
mod kubelet_plugin;

pub use daemon::{CLIQUE, Daemon};
pub use history::DomainHistory;
pub use kubelet_plugin::KubeletPlugin;

/// The file with the CRD.
pub const CRD_FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/compute-domains/computedomain.yaml");
/// The file with the CRD of the objects of cliques.
pub const CLIQUE_CRD_FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/compute-domains/computedomainclique.yaml");
/// The finalizer by which the driver protects its own objects.
pub const DRIVER_FINALIZER: &str = "resource.nvidia.com/computeDomain";
/// The label of a node that takes part in a domain: the UID of the domain.
pub const NODE_LABEL: &str = "resource.nvidia.com/computeDomain";
/// The finalizer of Grove.
pub const GROVE_FINALIZER: &str = "grove.io/computedomain-finalizer";

/// Creates the class of channels, and one channel on each node.
///
/// # Panics
/// If the API server rejects one of the objects.
pub async fn install_channels(client: &Client) {
    CHANNELS.install(client, 1).await.expect("the channels");
}

/// Creates the class of daemons, and one of its devices on each node.
///
/// # Panics
/// If the API server rejects one of the objects.
pub async fn install_daemons(client: &Client) {
    DAEMONS.install(client, 1).await.expect("the devices of daemons");
}

/// The driver of one namespace. It stops when the value is dropped.
///
/// As NVIDIA's driver does, it stops a domain as soon as the domain has a deletion timestamp, although it has other finalizers: it deletes the
/// claim template, stops the daemons, and removes the labels of the nodes.
pub struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the driver watches.
enum Watched {
    Domain(Box<ComputeDomain>),
    Pod(Box<Pod>),
}

impl Driver {
    /// Starts to serve the domains of the namespace.
    pub fn start(ns: &Namespace) -> Self {
        let (client, namespace) = (ns.client.clone(), ns.name.clone());
        let domains = versions(&client, &namespace).map(|domain| Watched::Domain(Box::new(domain)));
        let pods = versions(&client, &namespace).map(|pod| Watched::Pod(Box::new(pod)));
        Self(tokio::spawn(async move {
            let mut changes = Box::pin(stream::select(domains, pods));
            while let Some(change) = changes.next().await {
                // A later watch event repeats what failed: a conflict has one.
                drop(match change {
                    Watched::Domain(domain) if is_terminating(&*domain) => stop(&client, &namespace, &domain).await,
                    Watched::Domain(domain) => serve(&client, &namespace, &domain).await,
                    Watched::Pod(pod) => label_node(&client, &namespace, &pod).await,
                });
            }
        }))
    }
}

/// Each version of each object of the kind.
fn versions<K: Kind>(client: &Client, namespace: &str) -> impl Stream<Item = K> + Send + 'static {
    changes::<K>(client, namespace)
        .flat_map(|changes| stream::iter(changes.into_iter().filter_map(|change| change.object)))
}

/// Adds the driver's finalizer and label, and creates the claim template and the `DaemonSet`.
async fn serve(client: &Client, namespace: &str, domain: &ComputeDomain) -> Result<()> {
    if !domain.finalizers().iter().any(|finalizer| finalizer == DRIVER_FINALIZER) {
        let finalizers = domain.finalizers().iter().map(String::as_str).chain([DRIVER_FINALIZER]).collect();
        set_finalizers(client, namespace, domain, finalizers).await?;
    }
    let owner = domain.owner_ref(&()).context("the domain has a UID")?;
    drop(compute_domain_channels::create_claim_template(client, namespace, domain.claim_template(), Some(owner)).await);
    let (name, uid) = (daemon_set(domain), domain.uid());
    let labels = json!({ "computedomain": name });
    let container = json!({ "name": "daemon", "image": "registry.k8s.io/pause:3.10" });
    let pod = json!({ "nodeSelector": { NODE_LABEL: uid }, "tolerations": [{ "operator": "Exists" }],
        "containers": [container] });
    let spec = json!({ "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod } });
    drop(create(&daemon_sets(client), json!({ "metadata": { "name": name }, "spec": spec })).await);
    Ok(())
}

/// Stops the domain, and removes the driver's finalizer last.
async fn stop(client: &Client, namespace: &str, domain: &ComputeDomain) -> Result<()> {
    let params = DeleteParams::default();
    let templates = Api::<ResourceClaimTemplate>::namespaced(client.clone(), namespace);
    drop(templates.delete(domain.claim_template(), &params).await);
    drop(daemon_sets(client).delete(&daemon_set(domain), &params).await);
    let nodes = Api::<Node>::all(client.clone());
    let labelled = format!("{NODE_LABEL}={}", domain.uid().unwrap_or_default());
    for node in nodes.list_metadata(&ListParams::default().labels(&labelled)).await?.items {
        set_node_label(&nodes, &node.name_any(), None).await?;
    }
    if domain.finalizers().iter().any(|finalizer| finalizer == DRIVER_FINALIZER) {
        let others = domain.finalizers().iter().map(String::as_str).filter(|finalizer| *finalizer != DRIVER_FINALIZER);
        set_finalizers(client, namespace, domain, others.collect()).await?;
    }
    Ok(())
}

/// The node of a pod with the claim of a domain gets the label of the domain, so that a daemon runs there.
async fn label_node(client: &Client, namespace: &str, pod: &Pod) -> Result<()> {
    let Some((template, node)) = claim_template(pod).zip(pod.spec.as_ref().and_then(|spec| spec.node_name.clone()))
    else {
        return Ok(());
    };
    let domain = Api::<ComputeDomain>::namespaced(client.clone(), namespace).get(&template).await?;
    if !is_terminating(&domain) && !is_terminating(pod) {
        set_node_label(&Api::all(client.clone()), &node, domain.uid()).await?;
    }
    Ok(())
}

async fn set_node_label(nodes: &Api<Node>, node: &str, uid: Option<String>) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { NODE_LABEL: uid } } });
    nodes.patch_metadata(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn set_finalizers(client: &Client, namespace: &str, domain: &ComputeDomain, finalizers: Vec<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "resourceVersion": domain.resource_version(), "finalizers": finalizers,
        "labels": { "resource.nvidia.com/driver": "e2e" } } });
    let domains = Api::<ComputeDomain>::namespaced(client.clone(), namespace);
    domains.patch(&domain.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The daemons are in another namespace than the domain.
fn daemon_sets(client: &Client) -> Api<DaemonSet> {
    Api::default_namespaced(client.clone())
}

fn daemon_set(domain: &ComputeDomain) -> String {
    format!("computedomain-daemon-{}", domain.uid().unwrap_or_default())
}

/// The claim template of the domain that the pod uses.
pub fn claim_template(pod: &Pod) -> Option<String> {
    let claims = pod.spec.as_ref()?.resource_claims.as_ref()?;
    let claim = claims.iter().find(|claim| claim.name == "mnnvl-claim")?;
    claim.resource_claim_template_name.clone()
}
