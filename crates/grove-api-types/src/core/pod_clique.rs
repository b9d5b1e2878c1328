//! `PodClique`: pods of one role in one replica; a complete order for pclq-controller.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LastError;
use crate::pod_spec::RawPodSpec;

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
    /// The role the pods play; free text, may be empty.
    pub role_name: String,
    /// The pods, as Kubernetes knows them.
    pub pod_spec: RawPodSpec,
    /// How many pods run. In a template it is the number a new clique begins with; the clique's own number is changed
    /// through its scale subresource.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// How many pods must be scheduled together, and stay available. Defaults to `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
}

/// What is known about a clique; written by pclq-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
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
    pub conditions: Vec<Condition>,
    /// Generation hash of the set that the pods were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// Template hash that the pods were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_template_hash: Option<String>,
}

impl PodCliqueSpec {
    /// How many pods must be ready for the clique to be available. A clique that was scaled below its minimum, to nothing
    /// perhaps, has all that it was asked to have.
    pub fn needed(&self) -> i32 {
        self.min_available.unwrap_or(self.replicas).min(self.replicas)
    }
}
