//! `PodCliqueSet`: the object in which a user describes a workload. `MAX_REPLICAS` limits its replicas, and
//! `expansion::object_count::MAX_OBJECTS` the number of objects that it expands to.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_REPLICAS, SetRollingUpdate};

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

/// The upper bound of `revisionHistoryLimit`.
const MAX_REVISIONS: i32 = 1000;

/// A set of cliques that Grove creates, schedules and scales as a unit.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueSet",
    plural = "podcliquesets",
    singular = "podcliqueset",
    shortname = "pcs",
    category = "grove",
    namespaced,
    status = "PodCliqueSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.hpaPodSelector"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(
        name = "Available-Replicas",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        priority = "1"
    ),
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
        name = "PCSGs-Updated",
        type_ = "integer",
        json_path = ".status.updateProgress.updatedPodCliqueScalingGroupsCount",
        priority = "1"
    ),
    printcolumn(
        name = "PCSGs-Total",
        type_ = "integer",
        json_path = ".status.updateProgress.totalPodCliqueScalingGroupsCount",
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetSpec {
    /// The number of replicas of the template. Defaults to 0; a set with 0 replicas creates nothing.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,
    /// The strategy that replaces pods after a change of the template. Defaults to `RollingRecreate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<PodCliqueSetUpdateStrategy>,
    /// How many earlier templates are stored as `ControllerRevision`s for rollbacks, besides those that replicas use. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REVISIONS))]
    pub revision_history_limit: Option<i32>,
    /// The template of each replica.
    pub template: PodCliqueSetTemplateSpec,
}

impl PodCliqueSetSpec {
    /// The bounds and controls of its updates.
    pub fn rolling_update(&self) -> SetRollingUpdate {
        self.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default()
    }

    /// Whether the update strategy is `OnDelete`.
    pub fn is_updated_on_delete(&self) -> bool {
        self.update_strategy.as_ref().is_some_and(|strategy| strategy.type_ == UpdateStrategyType::OnDelete)
    }
}

/// The strategy that replaces pods after a change of the template.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetUpdateStrategy {
    /// The type of the strategy. A change of it replaces no pod.
    #[serde(default, rename = "type", deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub type_: UpdateStrategyType,
    /// Bounds and controls of `RollingRecreate`. Without them, one replica of the set is updated after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<SetRollingUpdate>,
}

/// The type of an update strategy.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum UpdateStrategyType {
    /// Grove replaces the pods, one replica of the set after the other.
    #[default]
    RollingRecreate,
    /// A user deletes the pods, and Grove creates their replacements from the new template.
    OnDelete,
}
