//! A stand-in for the devices of a DRA driver: a class, and devices on each node. The real scheduler allocates them.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The devices of NVIDIA's DRA driver for GPUs.
pub const GPUS: Devices = Devices { class: "gpu.nvidia.com", driver: "gpu.nvidia.com", prefix: "gpu" };

/// The devices of one driver.
#[derive(Clone, Copy, Debug)]
pub struct Devices {
    /// The class, which contains all devices of the driver.
    pub class: &'static str,
    /// The name of the driver.
    pub driver: &'static str,
    /// The begin of the names of devices.
    pub prefix: &'static str,
}

impl Devices {
    /// Creates the class, and this many devices on each node. The pool of a device has the name of its node.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub async fn install(&self, client: &Client, per_node: usize) -> Result<()> {
        let Self { class, driver, prefix } = self;
        let selector = json!({ "cel": { "expression": format!("device.driver == '{driver}'") } });
        let class = json!({ "metadata": { "name": class }, "spec": { "selectors": [selector] } });
        create(&Api::<DeviceClass>::all(client.clone()), class).await?;
        let slices = Api::<ResourceSlice>::all(client.clone());
        let devices: Vec<_> = (0..per_node).map(|number| json!({ "name": format!("{prefix}-{number}") })).collect();
        for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items {
            let name = node.name_any();
            let pool = json!({ "name": name, "generation": 1, "resourceSliceCount": 1 });
            let spec = json!({ "driver": driver, "nodeName": name, "pool": pool, "devices": devices });
            create(&slices, json!({ "metadata": { "name": format!("{prefix}-{name}") }, "spec": spec })).await?;
        }
        Ok(())
    }
}

/// Creates an object from JSON.
///
/// # Errors
/// If it is not an object of the kind, or if the API server rejects it.
pub async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("an object of the kind")?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map(drop).with_context(|| format!("cannot create the {} {}", K::kind(&()), object.name_any()))
}
