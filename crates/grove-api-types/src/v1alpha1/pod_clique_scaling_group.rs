//! `PodCliqueScalingGroup`: cliques of one replica of a set that scale together.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LastError, MAX_REPLICAS};

/// Cliques that scale together: each replica of the group has one `PodClique` per clique name.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueScalingGroup",
    plural = "podcliquescalinggroups",
    singular = "podcliquescalinggroup",
    shortname = "pcsg",
    category = "grove",
    namespaced,
    status = "PodCliqueScalingGroupStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "MinAvail", type_ = "integer", json_path = ".spec.minAvailable"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Scheduled", type_ = "integer", json_path = ".status.scheduledReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(
        name = "PCLQs-Updated",
        type_ = "integer",
        json_path = ".status.updateProgress.updatedPodCliquesCount",
        priority = "1"
    ),
    printcolumn(
        name = "PCLQs-Total",
        type_ = "integer",
        json_path = ".status.updateProgress.totalPodCliquesCount",
        priority = "1"
    ),
    printcolumn(
        name = "MinBreached",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="MinAvailableBreached")].status"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupSpec {
    /// The number of replicas. The template contains the initial number; clients change it through the scale subresource.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,
    /// The number of replicas that are part of the base gang of the set replica, and that must stay available.
    #[serde(default = "some_one", skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The names of the cliques of each replica, as in the template.
    pub clique_names: Vec<String>,
}

fn one() -> i32 {
    1
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn some_one() -> Option<i32> {
    Some(1)
}

impl PodCliqueScalingGroup {
    /// Whether its status reports an update in progress.
    pub fn is_updating(&self) -> bool {
        self.status.as_ref().is_some_and(PodCliqueScalingGroupStatus::is_updating)
    }
}

impl PodCliqueScalingGroupSpec {
    /// The number of replicas that must be available for the group to be available: `minAvailable`, or `replicas` if a user
    /// scaled the group below `minAvailable`.
    pub fn required_replicas(&self) -> i32 {
        self.min_available.unwrap_or(1).min(self.replicas)
    }
}

/// The status of a scaling group. pcs-controller writes it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The errors of the last reconcile. Absent if it succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// The requested number of replicas, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of replicas in which each clique has at least `minAvailable` scheduled pods.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// The number of replicas in which each clique is available.
    #[serde(default)]
    pub available_replicas: i32,
    /// The number of available replicas in which all cliques have the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// The label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The conditions `Available` and `MinAvailableBreached`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation hash of the set from which all replicas were created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The progress of the current or the last update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueScalingGroupUpdateProgress>,
}

/// The progress of an update of a scaling group.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupUpdateProgress {
    /// The time when the update started.
    pub update_started_at: Time,
    /// The time when the update ended. Absent during the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// When the update last made progress: another unit is new, or available. The field `progressDeadline` counts from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progressed_at: Option<Time>,
    /// The generation hash of the set that the update applies.
    pub pod_clique_set_generation_hash: String,
    /// The number of cliques of the group with the current template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// The number of cliques of the group.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// The available replicas that the update of another version replaces one at a time. Grove does not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replica_indices_selected_to_update: Option<ReplicaIndicesSelectedToUpdate>,
}

/// The available replicas that an update replaces one at a time.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaIndicesSelectedToUpdate {
    /// The index of the replica that the update replaces now.
    pub current: i32,
    /// The indices of the replicas that the update has replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<i32>>")]
    pub completed: Vec<i32>,
}

impl PodCliqueScalingGroupUpdateProgress {
    /// Whether the update has not ended.
    pub fn is_in_progress(&self) -> bool {
        self.update_ended_at.is_none()
    }
}

impl PodCliqueScalingGroupStatus {
    /// Whether it reports an update in progress.
    pub fn is_updating(&self) -> bool {
        self.update_progress.as_ref().is_some_and(PodCliqueScalingGroupUpdateProgress::is_in_progress)
    }
}
