//! A stand-in for the devices of NVIDIA's DRA driver: a class of channels, channels on each node, and the template of a claim for one
//! channel. The real scheduler allocates them.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const CLASS: &str = "compute-domain-default-channel.nvidia.com";
const DRIVER: &str = "compute-domain.nvidia.com";

/// Creates the class, and this many channels on each node.
///
/// # Errors
/// If the API server rejects a request.
pub async fn install(client: &Client, per_node: usize) -> Result<()> {
    let selector = json!({ "cel": { "expression": format!("device.driver == '{DRIVER}'") } });
    let class = json!({ "metadata": { "name": CLASS }, "spec": { "selectors": [selector] } });
    create(&Api::<DeviceClass>::all(client.clone()), class).await?;
    let slices = Api::<ResourceSlice>::all(client.clone());
    let devices: Vec<_> = (0..per_node).map(|channel| json!({ "name": format!("channel-{channel}") })).collect();
    for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items {
        let name = node.name_any();
        let pool = json!({ "name": name, "generation": 1, "resourceSliceCount": 1 });
        let spec = json!({ "driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices });
        create(&slices, json!({ "metadata": { "name": format!("channels-{name}") }, "spec": spec })).await?;
    }
    Ok(())
}

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
    let request = json!({ "name": "channel", "exactly": { "deviceClassName": CLASS } });
    let owners: Vec<_> = owner.into_iter().collect();
    let template = json!({ "metadata": { "name": name, "ownerReferences": owners },
        "spec": { "spec": { "devices": { "requests": [request] } } } });
    create(&Api::<ResourceClaimTemplate>::namespaced(client.clone(), namespace), template).await
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("an object of the kind")?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map(drop).with_context(|| format!("cannot create the {} {}", K::kind(&()), object.name_any()))
}
