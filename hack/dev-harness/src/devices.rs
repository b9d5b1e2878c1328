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
        self.create_class(client).await?;
        for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items {
            let name = node.name_any();
            self.create_slice(client, &name, per_node, ("nodeName", json!(name))).await?;
        }
        Ok(())
    }

    /// Creates the class, and this many devices that pods of all nodes can use.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub async fn install_for_all_nodes(&self, client: &Client, count: usize) -> Result<()> {
        self.create_class(client).await?;
        self.create_slice(client, "all", count, ("allNodes", json!(true))).await
    }

    async fn create_class(&self, client: &Client) -> Result<()> {
        let selector = json!({ "cel": { "expression": format!("device.driver == '{}'", self.driver) } });
        let class = json!({ "metadata": { "name": self.class }, "spec": { "selectors": [selector] } });
        create(&Api::<DeviceClass>::all(client.clone()), class).await
    }

    /// Creates the only slice of a pool. `nodes` is the field about the nodes that have access to the devices.
    async fn create_slice(&self, client: &Client, pool: &str, count: usize, nodes: (&str, Value)) -> Result<()> {
        let Self { class: _, driver, prefix } = self;
        let devices: Vec<_> = (0..count).map(|number| json!({ "name": format!("{prefix}-{number}") })).collect();
        let name = format!("{prefix}-{pool}");
        let pool = json!({ "name": pool, "generation": 1, "resourceSliceCount": 1 });
        let (field, value) = nodes;
        let spec = json!({ "driver": driver, field: value, "pool": pool, "devices": devices });
        create(&Api::<ResourceSlice>::all(client.clone()), json!({ "metadata": { "name": name }, "spec": spec })).await
    }
}

/// Creates an object from JSON.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).context("an object of the kind")?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map(drop).with_context(|| format!("cannot create the {} {}", K::kind(&()), object.name_any()))
}
