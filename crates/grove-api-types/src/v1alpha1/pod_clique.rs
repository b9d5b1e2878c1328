//! `PodClique`: pods of one role in one replica; a complete order for pclq-controller.

use k8s_openapi::api::core::v1::PodSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AutoScalingConfig;
use crate::raw::RawPodSpec;

mod status;

pub use status::{PodCliqueStatus, PodCliqueUpdateProgress, PodsSelectedToUpdate};

/// What a clique runs, in the template of a set and in a `PodClique`.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodClique",
    plural = "podcliques",
    singular = "podclique",
    shortname = "pclq",
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
    /// The role the pods play; free text, may be empty. Each clique of a set needs its own.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub role_name: String,
    /// The pods, as Kubernetes knows them.
    #[schemars(with = "PodSpec")]
    pub pod_spec: RawPodSpec,
    /// How many pods run. In a template it is the number a new clique begins with, where absent and 0 mean 1; the
    /// clique's own number is changed through its scale subresource, and there 0 means none.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// How many pods must be scheduled together, and stay available. Defaults to `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The cliques whose pods must be ready before these pods start: clique names in a template, `PodClique` names in a
    /// `PodClique`. Used with the startup type `CliqueStartupTypeExplicit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", length(max = 4096))]
    pub starts_after: Vec<String>,
    /// Lets an autoscaler choose `replicas`. Not for cliques of a scaling group, which scale as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scaling_config: Option<AutoScalingConfig>,
}

impl PodCliqueSpec {
    /// How many pods must be ready for the clique to be available. A clique that was scaled below its minimum, to nothing
    /// perhaps, has all that it was asked to have.
    pub fn needed(&self) -> i32 {
        self.min_available.unwrap_or(self.replicas).min(self.replicas)
    }
}
