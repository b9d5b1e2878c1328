//! A stand-in for the part of NVIDIA's DRA driver that serves `ComputeDomain`s: channels on each node, and the template of a claim for one
//! channel.

use anyhow::Result;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};
use serde_json::json;

use crate::devices::{Devices, create};

/// The channels. A pod with the claim of a `ComputeDomain` has one.
pub const CHANNELS: Devices = Devices {
    class: "compute-domain-default-channel.nvidia.com",
    driver: "compute-domain.nvidia.com",
    prefix: "channel",
};

/// The devices of daemons. A pod of the `DaemonSet` of a domain has one. In NVIDIA's driver, both classes have one driver; another name lets
/// each class have a pool of its own.
pub const DAEMONS: Devices =
    Devices { class: "compute-domain-daemon.nvidia.com", driver: "daemon.compute-domain.nvidia.com", prefix: "daemon" };

/// Creates the template that the driver creates for a `ComputeDomain`.
///
/// # Errors
/// If the API server rejects it, for example because it exists.
pub async fn create_claim_template(
    client: &Client,
    namespace: &str,
    name: &str,
    owner: Option<OwnerReference>,
) -> Result<()> {
    let request = json!({ "name": "channel", "exactly": { "deviceClassName": CHANNELS.class } });
    let owners: Vec<_> = owner.into_iter().collect();
    let template = json!({ "metadata": { "name": name, "ownerReferences": owners },
        "spec": { "spec": { "devices": { "requests": [request] } } } });
    create(&Api::<ResourceClaimTemplate>::namespaced(client.clone(), namespace), template).await
}
