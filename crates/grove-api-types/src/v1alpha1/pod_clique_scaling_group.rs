//! `PodCliqueScalingGroup`: cliques of one replica of a set that scale together.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LastError;

/// Cliques that scale together: each replica of the group has one `PodClique` per name.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueScalingGroup",
    plural = "podcliquescalinggroups",
    singular = "podcliquescalinggroup",
    shortname = "pcsg",
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
        json_path = ".status.updateProgress.updatedPodCliquesCount"
    ),
    printcolumn(name = "PCLQs-Total", type_ = "integer", json_path = ".status.updateProgress.totalPodCliquesCount"),
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
    /// How many replicas the group has. The template says with how many it begins; after that the number is changed
    /// through the scale subresource.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// How many replicas are scheduled together with the rest of the set's replica, and must stay available.
    #[serde(default = "some_one", skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The cliques of each replica, by their names in the template.
    pub clique_names: Vec<String>,
}

fn one() -> i32 {
    1
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn some_one() -> Option<i32> {
    Some(1)
}

impl PodCliqueScalingGroupSpec {
    /// How many replicas must be available for the group to be. A group that was scaled below its minimum, to nothing
    /// perhaps, has all that it was asked to have.
    pub fn needed(&self) -> i32 {
        self.min_available.unwrap_or(1).min(self.replicas)
    }
}

/// What is known about a scaling group; written by pcs-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last reconcile; absent after one that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// Replicas asked for, as the scale subresource reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas all of whose cliques have their minimum scheduled.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// Replicas all of whose cliques have their minimum ready.
    #[serde(default)]
    pub available_replicas: i32,
    /// Available replicas all of whose cliques run the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Selector of the pods, as the scale subresource reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// `Available`, `MinAvailableBreached` and `GangTerminationInProgress`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Generation hash of the set that all replicas were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The update that runs, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueScalingGroupUpdateProgress>,
}

/// How far an update of a scaling group has come.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupUpdateProgress {
    /// When it began.
    pub update_started_at: Time,
    /// When it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Generation hash of the set that it leads to.
    pub pod_clique_set_generation_hash: String,
    /// Cliques of the group that run the current template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// Cliques of the group.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// The available replicas that are replaced one at a time; absent when none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replica_indices_selected_to_update: Option<ReplicaIndicesSelectedToUpdate>,
}

/// The available replicas that an update replaces one at a time.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaIndicesSelectedToUpdate {
    /// Index of the replica that is being replaced.
    pub current: i32,
    /// Indices of the replicas that were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<i32>>")]
    pub completed: Vec<i32>,
}
