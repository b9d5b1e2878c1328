//! What pcs-controller says of a set.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::LastError;

/// What is known about a set; written by pcs-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Available` says whether every replica is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Errors of the last reconcile; absent after one that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// Replicas asked for, as the scale subresource reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Available replicas all of whose cliques run the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Replicas none of whose cliques and scaling groups is below its `minAvailable`.
    #[serde(default)]
    pub available_replicas: i32,
    /// Selector of the pods of the set, as the scale subresource reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// The gangs of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PodGangStatus>>")]
    pub pod_gang_statuses: Vec<PodGangStatus>,
    /// Hash of the templates that the set was last reconciled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
    /// The update that runs, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueSetUpdateProgress>,
}

/// What is known about one gang of a set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// Name of the `PodGang`.
    pub name: String,
    /// Where the gang is in its life.
    pub phase: PodGangStatusPhase,
    /// The conditions of the gang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where a gang of a set is in its life.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum PodGangStatusPhase {
    /// Some pod of the minimum is not scheduled.
    #[default]
    Pending,
    /// The minimum is scheduled, and not all of it is ready.
    Starting,
    /// The minimum is ready.
    Running,
    /// Some pod of the minimum failed for good.
    Failed,
    /// All pods ended well.
    Succeeded,
}

/// How far an update of a set has come.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetUpdateProgress {
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Cliques that belong to no scaling group and run the current template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// Cliques that belong to no scaling group.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// Scaling groups that run the current templates.
    #[serde(default)]
    pub updated_pod_clique_scaling_groups_count: i32,
    /// Scaling groups.
    #[serde(default)]
    pub total_pod_clique_scaling_groups_count: i32,
    /// The replicas that are being updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PodCliqueSetReplicaUpdateProgress>>")]
    pub currently_updating: Vec<PodCliqueSetReplicaUpdateProgress>,
}

/// How far the update of one replica of a set has come.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetReplicaUpdateProgress {
    /// Index of the replica.
    pub replica_index: i32,
    /// When its update began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When its update ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
}
