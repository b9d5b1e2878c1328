//! The status of a `ComputeDomain`.

use serde::{Deserialize, Serialize};

use super::entry::{Entry, Readiness};
use crate::enum_decoding::unknown_as_default;

/// The state of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputeDomainStatus {
    /// Whether all nodes are ready. Absent before the first daemon registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Readiness>,
    /// The nodes, if the state is stored in the domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ComputeDomainNode>,
    /// The cliques of the nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cliques: Vec<ComputeDomainCliqueStatus>,
}

/// The entry of a daemon in the status of its domain. Its fields are those of [`Entry`]; only the name of the node has another
/// field name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainNode {
    /// The node.
    pub name: String,
    /// The address of the daemon's pod.
    pub ip_address: String,
    /// The clique of the node. Empty without `NVLink` fabric.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// The number of the daemon in its clique.
    #[serde(default)]
    pub index: i64,
    /// Whether the daemon is ready.
    #[serde(default, deserialize_with = "unknown_as_default")]
    pub status: Readiness,
}

/// The summary of a clique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputeDomainCliqueStatus {
    /// The ID of the clique.
    pub id: String,
    /// Whether all its daemons are ready.
    #[serde(deserialize_with = "unknown_as_default")]
    pub status: Readiness,
}

impl From<Entry> for ComputeDomainNode {
    fn from(entry: Entry) -> Self {
        let Entry { node_name, ip_address, clique_id, index, status } = entry;
        Self { name: node_name, ip_address, clique_id, index, status }
    }
}

impl From<ComputeDomainNode> for Entry {
    fn from(node: ComputeDomainNode) -> Self {
        let ComputeDomainNode { name, ip_address, clique_id, index, status } = node;
        Self { node_name: name, ip_address, clique_id, index, status }
    }
}
