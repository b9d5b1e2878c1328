//! What pclq-controller says of a clique.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::LastError;

/// What is known about a clique; written by pclq-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last reconcile; absent after one that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// Pods that are not terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods made from the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Pods that wait behind a scheduling gate.
    #[serde(default)]
    pub schedule_gated_replicas: i32,
    /// Pods that are bound to a node.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// Selector of the pods, as the scale subresource reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// `Available`, `MinAvailableBreached` and `PodCliqueScheduled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Generation hash of the set that the pods were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// Template hash that the pods were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_template_hash: Option<String>,
    /// The update that runs, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueUpdateProgress>,
}

/// How far an update of a clique has come.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueUpdateProgress {
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Generation hash of the set that it leads to.
    pub pod_clique_set_generation_hash: String,
    /// Template hash that it leads to.
    pub pod_template_hash: String,
    /// The ready pods that are replaced one at a time; absent when none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods_selected_to_update: Option<PodsSelectedToUpdate>,
}

/// The ready pods that an update replaces one at a time.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodsSelectedToUpdate {
    /// Name of the pod that is being replaced.
    pub current: String,
    /// Names of the pods that were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub completed: Vec<String>,
}
