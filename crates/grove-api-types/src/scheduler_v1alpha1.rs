//! API group `scheduler.grove.io/v1alpha1`: gangs for schedulers.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods that the scheduler places together or not at all.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[kube(
    group = "scheduler.grove.io",
    version = "v1alpha1",
    kind = "PodGang",
    plural = "podgangs",
    singular = "podgang",
    shortname = "pg",
    category = "grove",
    namespaced,
    status = "PodGangStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodGangSpec {
    /// One group of identical pods per clique of the gang.
    pub podgroups: Vec<GangPodGroup>,
    /// The topology constraint of the whole gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Topology constraints for several groups together, for example for a replica of a scaling group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<TopologyConstraintGroupConfig>>")]
    pub topology_constraint_group_configs: Vec<TopologyConstraintGroupConfig>,
    /// The priority class of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// A gang whose resources this gang may reuse. Grove does not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_reservation_ref: Option<NamespacedName>,
}

/// Identical pods of a gang.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GangPodGroup {
    /// The name of the `PodClique` of the pods.
    pub name: String,
    /// The pods, sorted by name. pclq-controller writes the list.
    pub pod_references: Vec<NamespacedName>,
    /// The number of pods that must be scheduled together.
    pub min_replicas: i32,
    /// The topology constraint of these pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

impl GangPodGroup {
    /// See [`required_replicas`].
    pub fn required_replicas(&self, replicas: Option<i32>) -> i32 {
        required_replicas(self.min_replicas, replicas)
    }
}

/// The number of pods of a pod group that must be scheduled together: its minimum, or `replicas` of its clique if a user scaled the clique
/// below the minimum, also to zero. `None` means that the clique does not exist yet.
pub fn required_replicas(min_replicas: i32, replicas: Option<i32>) -> i32 {
    min_replicas.min(replicas.unwrap_or(i32::MAX)).max(0)
}

/// A topology constraint.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// The node labels by which the scheduler packs the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_constraint: Option<TopologyPackConstraint>,
}

/// The node labels by which the scheduler packs pods.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyPackConstraint {
    /// The key of a node label. All pods must be on nodes with the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
    /// The key of a node label. The scheduler places all pods on nodes with the same value if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
}

/// The topology constraint of several groups of a gang.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraintGroupConfig {
    /// The name of the replica of the scaling group.
    pub name: String,
    /// The names of the groups.
    pub pod_group_names: Vec<String>,
    /// The topology constraint of their pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// The namespace and the name of an object.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The status of a gang.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// The phase of the gang.
    #[serde(deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub phase: PodGangPhase,
    /// The conditions. Grove writes `Initialized` and `Ready`; the other conditions describe scheduling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The quality of the placement, if the scheduler reports it. Grove does not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_score: Option<f64>,
}

/// The phase of a gang.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum PodGangPhase {
    /// A clique has fewer scheduled pods than its minimum.
    #[default]
    Pending,
    /// Each clique has its minimum of scheduled pods, and a clique has fewer ready pods than its minimum.
    Starting,
    /// Each clique has its minimum of ready pods.
    Running,
}
