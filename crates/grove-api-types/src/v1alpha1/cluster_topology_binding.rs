//! `ClusterTopologyBinding`: the levels of a topology under names of the administrator's choice, and which topology of
//! which scheduler it stands for.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The levels of a topology, and the topologies of schedulers that it stands for.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "ClusterTopologyBinding",
    plural = "clustertopologybindings",
    singular = "clustertopologybinding",
    shortname = "ct",
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
    /// The topologies of schedulers that somebody else keeps; for other schedulers Grove keeps one of this name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SchedulerTopologyBinding>>", length(max = 64))]
    pub scheduler_topology_bindings: Vec<SchedulerTopologyBinding>,
}

/// One level of a topology.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyBindingLevel {
    /// What constraints call the level.
    #[schemars(schema_with = "domain")]
    pub domain: String,
    /// The label of nodes whose value says in which domain of the level they are.
    #[schemars(schema_with = "key")]
    pub key: String,
}

/// A topology that a scheduler has of its own.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyBinding {
    /// The scheduler, as pods carry its name.
    #[schemars(length(max = 253))]
    pub scheduler_name: String,
    /// The name of the scheduler's topology object.
    pub topology_reference: String,
}

/// What is known about a topology; written by topology-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyBindingStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `SchedulerTopologyDrift`, where a scheduler's topology has other levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// One per scheduler that packs by topology, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SchedulerTopologyStatus>>")]
    pub scheduler_topology_statuses: Vec<SchedulerTopologyStatus>,
}

/// Whether a scheduler's topology has the levels of this one.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyStatus {
    /// The scheduler, as pods carry its name.
    pub scheduler_name: String,
    /// The name of the scheduler's topology object.
    pub topology_reference: String,
    /// Whether its levels are these.
    pub in_sync: bool,
    /// Generation of the scheduler's topology object that this speaks of, where somebody else keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_backend_topology_observed_generation: Option<i64>,
    /// What differs.
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
