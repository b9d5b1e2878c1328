//! Group `scheduler.grove.io/v1alpha1`: what Grove tells schedulers.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods that are scheduled together or not at all.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[kube(
    group = "scheduler.grove.io",
    version = "v1alpha1",
    kind = "PodGang",
    plural = "podgangs",
    singular = "podgang",
    shortname = "pg",
    namespaced,
    status = "PodGangStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodGangSpec {
    /// One group of identical pods per clique of the gang.
    pub podgroups: Vec<PodGroup>,
    /// How close together the whole gang is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Groups of groups that are to be closer together than the rest: the replicas of a scaling group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<TopologyConstraintGroupConfig>>")]
    pub topology_constraint_group_configs: Vec<TopologyConstraintGroupConfig>,
    /// Priority class of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// A gang whose places this one may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_reservation_ref: Option<NamespacedName>,
}

/// Identical pods of a gang.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    /// Name of the `PodClique` whose pods these are.
    pub name: String,
    /// The pods, sorted by name. Written by pclq-controller.
    pub pod_references: Vec<NamespacedName>,
    /// How many of the pods the gang needs at least.
    pub min_replicas: i32,
    /// How close together these pods are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// How close together pods are to be.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// The labels of nodes that the pods' nodes have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_constraint: Option<TopologyPackConstraint>,
}

/// Labels of nodes that the nodes of some pods have in common.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyPackConstraint {
    /// Key of the label whose value must be the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
    /// Key of the label whose value is the same if there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
}

/// Groups of a gang that are to be close together.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraintGroupConfig {
    /// Name of the replica of the scaling group.
    pub name: String,
    /// Names of its groups.
    pub pod_group_names: Vec<String>,
    /// How close together their pods are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// An object of some namespace.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is known about a gang.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// Where the gang is in its life.
    pub phase: PodGangPhase,
    /// `Initialized` is Grove's; the others are the scheduler's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// How well the gang was placed, as the scheduler judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_score: Option<f64>,
}

/// Where a gang is in its life.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum PodGangPhase {
    /// Some pod of the minimum is not scheduled.
    #[default]
    Pending,
    /// The minimum is scheduled, and not all of it is ready.
    Starting,
    /// The minimum is ready.
    Running,
}
