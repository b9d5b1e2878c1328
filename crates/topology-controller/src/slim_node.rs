//! `Node`s with only the keys of their labels.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grove_runtime::caches::{Index, IndexScope};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// The nodes with a label, by its key.
pub(crate) const NODES_BY_LABEL_KEY: Index<SlimNode> =
    Index { name: "label-key", values: label_keys, scope: IndexScope::Cluster };

fn label_keys(node: &SlimNode) -> Vec<Cow<'_, str>> {
    node.label_keys.iter().map(|key| Cow::Borrowed(key.as_str())).collect()
}

/// A node in a cache.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(inherit = Node)]
pub(crate) struct SlimNode {
    /// The metadata without labels and annotations.
    pub(crate) metadata: ObjectMeta,
    /// The keys of its labels.
    pub(crate) label_keys: BTreeSet<String>,
}

/// The other fields change every few minutes, and the reconciler does not read them.
#[derive(Deserialize)]
struct RawNode {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de> Deserialize<'de> for SlimNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let RawNode { metadata } = RawNode::deserialize(from)?;
        let label_keys = metadata.labels.unwrap_or_default().into_keys().collect();
        let metadata = ObjectMeta { labels: None, annotations: None, managed_fields: None, ..metadata };
        Ok(Self { metadata, label_keys })
    }
}
