//! The status of a set.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::LastError;

/// The status of a set. pcs-controller writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions. `Available` is true if all replicas are available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The errors of the last reconcile. Absent if it succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// The requested number of replicas, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of available replicas in which all cliques have the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// The number of replicas in which each clique and each scaling group is available.
    #[serde(default)]
    pub available_replicas: i32,
    /// The label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// The gangs of the set. Grove does not write this list; the status of each `PodGang` describes the gang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PodGangStatus>>")]
    pub pod_gang_statuses: Vec<PodGangStatus>,
    /// The hash of the templates at the last reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
    /// The progress of the current or the last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueSetUpdateProgress>,
}

/// The status of one gang of a set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// The name of the `PodGang`.
    pub name: String,
    /// The phase of the gang.
    #[serde(deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub phase: PodGangStatusPhase,
    /// The conditions of the gang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The phase of a gang of a set.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum PodGangStatusPhase {
    /// A clique has fewer scheduled pods than its minimum.
    #[default]
    Pending,
    /// Each clique has its minimum of scheduled pods, and a clique has fewer ready pods than its minimum.
    Starting,
    /// Each clique has its minimum of ready pods.
    Running,
    /// A clique cannot reach its minimum, because pods failed permanently.
    Failed,
    /// All pods succeeded.
    Succeeded,
}

/// The progress of an update of a set.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetUpdateProgress {
    /// The time when the update started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// The time when the update ended. Absent during the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// When the update last made progress: another unit is new, or available. The field `progressDeadline` counts from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progressed_at: Option<Time>,
    /// The number of standalone cliques with the current template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// The number of standalone cliques.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// The number of scaling groups with the current templates.
    #[serde(default)]
    pub updated_pod_clique_scaling_groups_count: i32,
    /// The number of scaling groups.
    #[serde(default)]
    pub total_pod_clique_scaling_groups_count: i32,
    /// The replicas that the update replaces now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PodCliqueSetReplicaUpdateProgress>>")]
    pub currently_updating: Vec<PodCliqueSetReplicaUpdateProgress>,
}

/// The progress of the update of one replica of a set.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetReplicaUpdateProgress {
    /// The index of the replica.
    pub replica_index: i32,
    /// The time when the update of the replica started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// The time when the update of the replica ended. Absent during the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
}

impl PodCliqueSetUpdateProgress {
    /// Whether the update has not ended.
    pub fn is_in_progress(&self) -> bool {
        self.update_ended_at.is_none()
    }
}

impl PodCliqueSetStatus {
    /// Whether it reports an update in progress.
    pub fn is_updating(&self) -> bool {
        self.update_progress.as_ref().is_some_and(PodCliqueSetUpdateProgress::is_in_progress)
    }
}
