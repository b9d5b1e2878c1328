//! The nodes with GPUs, each with the number of its GPUs.

use grove_runtime::caches::{Cache, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use grove_runtime::runtime::Runtime;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A node in a cache: its identity, and the number of its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(inherit = Node)]
pub(crate) struct GpuNode {
    /// Name, UID and resource version.
    pub(crate) metadata: ObjectMeta,
    /// The GPUs that pods can have; 0 if there are none.
    gpus: u64,
}

#[derive(Deserialize)]
struct RawNode {
    metadata: ObjectMeta,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    allocatable: RawResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResources {
    #[serde(rename = "nvidia.com/gpu")]
    gpus: Value,
}

impl<'de> Deserialize<'de> for GpuNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let RawNode { metadata: ObjectMeta { name, uid, resource_version, .. }, status } = RawNode::deserialize(from)?;
        let metadata = ObjectMeta { name, uid, resource_version, ..ObjectMeta::default() };
        // Kubelets report an integer.
        let gpus = &status.allocatable.gpus;
        let gpus = gpus.as_u64().or_else(|| gpus.as_str()?.parse().ok());
        Ok(Self { metadata, gpus: gpus.unwrap_or_default() })
    }
}

/// The permission of the informer.
pub(crate) fn rule() -> PolicyRule {
    PolicyRule::for_resource::<Node>(&[Verb::List, Verb::Watch], "find out whether the GPUs of a clique fit one node")
}

/// Starts the informer of nodes with GPUs. Without the permission, no number is known.
pub(crate) fn start_informer(runtime: &Runtime) -> Cache<GpuNode> {
    runtime.start_informer(InformerOptions::default().with_filter(|node: &GpuNode| node.gpus > 0).optional())
}

/// The GPUs of the node with most; `None` if no node has GPUs.
pub(crate) fn most_gpus(nodes: &Cache<GpuNode>) -> Option<u64> {
    nodes.all().iter().map(|node| node.gpus).max()
}

#[cfg(test)]
mod tests {
    use grove_test_support::check_watched_kind;
    use serde_json::json;

    use super::*;

    fn node(name: &str, status: &Value) -> GpuNode {
        let node = json!({ "metadata": { "name": name, "labels": { "a": "b" } }, "status": status });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn the_node_with_most_gpus_counts() {
        let gpus = |count: &Value| json!({ "allocatable": { "cpu": "64", "nvidia.com/gpu": count } });
        let (four, eight) = (node("a", &gpus(&json!("4"))), node("b", &gpus(&json!(8))));
        assert_eq!(most_gpus(&Cache::from_objects([four.clone(), eight])), Some(8));
        assert_eq!(most_gpus(&Cache::from_objects([])), None);
        assert_eq!(four.metadata.labels, None, "only the identity is stored");
        for status in [json!({}), gpus(&json!("many")), json!({ "allocatable": {} })] {
            assert_eq!(node("c", &status).gpus, 0, "{status}");
        }
    }

    #[test]
    fn an_edited_node_affects_no_other() {
        check_watched_kind!(GpuNode, json!({ "status": { "allocatable": { "nvidia.com/gpu": "8" } } }));
    }
}
