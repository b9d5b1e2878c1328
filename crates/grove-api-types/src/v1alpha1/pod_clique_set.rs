//! `PodCliqueSet`: the one object a user writes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod status;
mod template;

pub use status::{
    PodCliqueSetReplicaUpdateProgress, PodCliqueSetStatus, PodCliqueSetUpdateProgress, PodGangStatus,
    PodGangStatusPhase,
};
pub use template::{
    CliqueStartupType, HeadlessServiceConfig, PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec,
    PodCliqueTemplateSpec,
};

/// A set of cliques that is created, scheduled and scaled as a unit.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueSet",
    plural = "podcliquesets",
    singular = "podcliqueset",
    shortname = "pcs",
    namespaced,
    status = "PodCliqueSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.hpaPodSelector"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(
        name = "PCLQs-Updated",
        type_ = "integer",
        json_path = ".status.updateProgress.updatedPodCliquesCount"
    ),
    printcolumn(name = "PCLQs-Total", type_ = "integer", json_path = ".status.updateProgress.totalPodCliquesCount"),
    printcolumn(
        name = "PCSGs-Updated",
        type_ = "integer",
        json_path = ".status.updateProgress.updatedPodCliqueScalingGroupsCount"
    ),
    printcolumn(
        name = "PCSGs-Total",
        type_ = "integer",
        json_path = ".status.updateProgress.totalPodCliqueScalingGroupsCount"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetSpec {
    /// How many copies of the template run. Absent means 0: such a set creates nothing.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// How a change of the templates reaches the pods; absent means `RollingRecreate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<PodCliqueSetUpdateStrategy>,
    /// What each replica consists of.
    pub template: PodCliqueSetTemplateSpec,
}

/// How a change of the templates reaches the pods.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetUpdateStrategy {
    /// Who replaces the pods.
    #[serde(default, rename = "type")]
    pub type_: UpdateStrategyType,
}

/// Who replaces pods whose template changed.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum UpdateStrategyType {
    /// Grove does, one replica of the set at a time.
    #[default]
    RollingRecreate,
    /// The user does, by deleting them; what comes after is made from the new template.
    OnDelete,
}
