//! The status of a clique.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::LastError;

/// The status of a clique. pclq-controller writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The errors of the last reconcile. Absent if it succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// The number of pods that are neither terminating nor finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// The number of pods that were created from the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// The number of pods with a scheduling gate.
    #[serde(default)]
    pub schedule_gated_replicas: i32,
    /// The number of pods that are bound to a node.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// The time when `minAvailable` pods were last scheduled after fewer were. Stays when pods are no longer scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled: Option<Time>,
    /// The label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// The conditions `Available`, `MinAvailableBreached` and `PodCliqueScheduled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation hash of the set from which all pods were created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The template hash from which all pods were created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_template_hash: Option<String>,
    /// The progress of the current or the last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueUpdateProgress>,
}

/// The progress of an update of a clique.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueUpdateProgress {
    /// The time when the update started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// The time when the update ended. Absent during the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// When the update last made progress: another unit is new, or available. The field `progressDeadline` counts from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progressed_at: Option<Time>,
    /// The generation hash of the set that the update applies.
    pub pod_clique_set_generation_hash: String,
    /// The template hash that the update applies.
    pub pod_template_hash: String,
    /// The ready pods that the update of another version replaces one at a time. Grove does not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods_selected_to_update: Option<PodsSelectedToUpdate>,
}

/// The ready pods that an update replaces one at a time.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodsSelectedToUpdate {
    /// The name of the pod that the update replaces now.
    pub current: String,
    /// The names of the pods that the update has replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub completed: Vec<String>,
}

impl PodCliqueUpdateProgress {
    /// Whether the update has not ended.
    pub fn is_in_progress(&self) -> bool {
        self.update_ended_at.is_none()
    }
}

impl PodCliqueStatus {
    /// Whether it reports an update in progress.
    pub fn is_updating(&self) -> bool {
        self.update_progress.as_ref().is_some_and(PodCliqueUpdateProgress::is_in_progress)
    }
}
