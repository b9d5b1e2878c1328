//! `ClusterTopology`: the levels of the topology of a cluster, with seven predefined names.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]
#![allow(clippy::doc_markdown, reason = "kubectl explain shows the sentences about the domains without markup")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::LastError;

/// The levels of the topology of a cluster, each with its node label.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "ClusterTopology",
    plural = "clustertopologies",
    singular = "clustertopology",
    shortname = "ctopo",
    category = "grove",
    status = "ClusterTopologyStatus",
    derive = "PartialEq",
    printcolumn(name = "Domains", type_ = "string", json_path = ".spec.levels[*].domain"),
    printcolumn(name = "Sets", type_ = "integer", json_path = ".status.referringSets"),
    printcolumn(name = "Scheduled", type_ = "integer", json_path = ".status.scheduledSets"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(name = "Nodes without key", type_ = "string", json_path = ".status.nodesWithoutKey[*].nodes"),
    printcolumn(name = "Referring sets", type_ = "string", json_path = ".status.referringSetNames", priority = 1),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.levels.all(level, self.levels.exists_one(other, other.domain == level.domain))")
    .message("each domain must be unique")
    .field_path(".levels"))]
#[x_kube(validation = Rule::new("self.levels.all(level, self.levels.exists_one(other, other.key == level.key))")
    .message("each node label must be unique")
    .field_path(".levels"))]
pub struct ClusterTopologySpec {
    /// The levels. The webhook stores them broadest first.
    #[schemars(length(min = 1, max = 7))]
    pub levels: Vec<ClusterTopologyLevel>,
}

/// One level of a topology.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyLevel {
    /// The name of the level in topology constraints, from the broadest to the narrowest:
    /// - region: Network local to a CSP region
    /// - zone: Network local to a CSP availability-zone within a region
    /// - datacenter: Network local to a data-center within a CSP availability-zone
    /// - block: Network local to a switching block unit within a data-center
    /// - rack: First-level network grouping of compute hosts (includes NVLink domains as logical racks)
    /// - host: Individual compute host
    /// - numa: NUMA node (processor and memory locality domain) within a compute host
    #[schemars(schema_with = "domain")]
    pub domain: String,
    /// The node label of the level. Nodes with the same value are in the same domain.
    #[schemars(schema_with = "key")]
    pub key: String,
}

/// The status of a topology. topology-controller writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The errors of the last reconcile. Absent if it succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// The condition `Ready`, and `SchedulerTopologyDrift` if the topology object of a scheduler has other levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The number of `PodCliqueSet`s that refer to the topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referring_sets: Option<i32>,
    /// The first of them in alphabetical order, at most ten, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub referring_set_names: Vec<String>,
    /// The number of referring sets with scheduled pods. While it is not 0, the levels cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_sets: Option<i32>,
    /// The number of nodes of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// For each level, the number of nodes that lack its node label, the broadest level first. Such nodes get no pods that must be packed
    /// by that level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<NodesWithoutKey>>")]
    pub nodes_without_key: Vec<NodesWithoutKey>,
}

/// How many nodes lack the node label of a level.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesWithoutKey {
    /// The node label of the level.
    pub key: String,
    /// The number of nodes without this label.
    pub nodes: i32,
}

/// The domains, broadest first.
fn domain(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["region", "zone", "datacenter", "block", "rack", "host", "numa"] })
}

/// The key of a label: a name with an optional DNS prefix.
fn key(_: &mut SchemaGenerator) -> Schema {
    let pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 317, "pattern": pattern })
}
