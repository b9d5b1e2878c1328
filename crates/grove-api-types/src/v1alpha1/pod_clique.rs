//! `PodClique`: the pods of one role in one replica. It contains everything that pclq-controller needs.

use k8s_openapi::api::core::v1::PodSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AutoScalingConfig, MAX_REPLICAS};
use crate::raw::RawPodSpec;
use crate::scheduler_v1alpha1::required_replicas;

mod status;

pub use status::{PodCliqueStatus, PodCliqueUpdateProgress, PodsSelectedToUpdate};

/// The spec of a clique, in the template of a set and in a `PodClique`.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodClique",
    plural = "podcliques",
    singular = "podclique",
    shortname = "pclq",
    category = "grove",
    namespaced,
    status = "PodCliqueStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.hpaPodSelector"
    ),
    printcolumn(name = "MinAvail", type_ = "integer", json_path = ".spec.minAvailable"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Scheduled", type_ = "integer", json_path = ".status.scheduledReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Gated", type_ = "integer", json_path = ".status.scheduleGatedReplicas", priority = "1"),
    printcolumn(
        name = "MinBreached",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="MinAvailableBreached")].status"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSpec {
    /// The role of the pods: free text, may be empty. Role names are unique within a set.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub role_name: String,
    /// The template of the pods.
    #[schemars(with = "PodSpec")]
    pub pod_spec: RawPodSpec,
    /// The number of pods. In the template of a set it is the initial number, and defaults to 1; 0 means 1 too. In a `PodClique`,
    /// clients change the number through the scale subresource, and 0 means no pods.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,
    /// The number of pods that are scheduled together as part of the gang, and that must stay available. Defaults to `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The cliques that must have `minAvailable` ready pods before these pods start: names of cliques in the template of a set, names of
    /// `PodClique`s in a `PodClique`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", length(max = 4096))]
    pub starts_after: Vec<String>,
    /// Configures a `HorizontalPodAutoscaler` for `replicas`. Not allowed for a clique of a scaling group, which scales with its
    /// group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scaling_config: Option<AutoScalingConfig>,
}

impl PodClique {
    /// Whether its status reports an update in progress.
    pub fn is_updating(&self) -> bool {
        self.status.as_ref().is_some_and(PodCliqueStatus::is_updating)
    }
}

impl PodCliqueSpec {
    /// The number of pods that must be ready for the clique to be available. See [`required_replicas`].
    pub fn required_replicas(&self) -> i32 {
        required_replicas(self.min_available.unwrap_or(self.replicas), Some(self.replicas))
    }
}
