//! `ClusterTopologyBinding`: the levels of a topology with names that the administrator chooses, and the topology objects of
//! schedulers that correspond to it.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The levels of a topology, and the topology objects of schedulers that correspond to it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "ClusterTopologyBinding",
    plural = "clustertopologybindings",
    singular = "clustertopologybinding",
    shortname = "ct",
    category = "grove",
    status = "ClusterTopologyBindingStatus",
    derive = "PartialEq",
    printcolumn(name = "Domains", type_ = "string", json_path = ".spec.levels[*].domain"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyBindingSpec {
    /// The levels, the broadest first.
    #[schemars(length(min = 1, max = 64))]
    pub levels: Vec<TopologyBindingLevel>,
    /// The topology objects of schedulers that an administrator manages. For other schedulers Grove manages an object with the
    /// name of this topology.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SchedulerTopologyBinding>>", length(max = 64))]
    pub scheduler_topology_bindings: Vec<SchedulerTopologyBinding>,
}

/// One level of a topology.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyBindingLevel {
    /// The name of the level in topology constraints.
    #[schemars(schema_with = "domain")]
    pub domain: String,
    /// The node label of the level. Nodes with the same value are in the same domain.
    #[schemars(schema_with = "key")]
    pub key: String,
}

/// The topology object of a scheduler.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyBinding {
    /// The name of the scheduler, as in `schedulerName` of pods.
    #[schemars(length(max = 253))]
    pub scheduler_name: String,
    /// The name of the scheduler's topology object.
    pub topology_reference: String,
}

/// The status of a topology. topology-controller writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyBindingStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The condition `SchedulerTopologyDrift`, if the topology object of a scheduler has other levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The status for each scheduler that supports topologies, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SchedulerTopologyStatus>>")]
    pub scheduler_topology_statuses: Vec<SchedulerTopologyStatus>,
}

/// Whether the topology object of a scheduler has the same levels.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyStatus {
    /// The name of the scheduler, as in `schedulerName` of pods.
    pub scheduler_name: String,
    /// The name of the scheduler's topology object.
    pub topology_reference: String,
    /// Whether the levels are equal.
    pub in_sync: bool,
    /// The generation of the topology object that this status describes, if an administrator manages the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_backend_topology_observed_generation: Option<i64>,
    /// The difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

fn domain(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$" })
}

fn key(_: &mut SchemaGenerator) -> Schema {
    let pattern = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": pattern })
}
