//! The bounds and controls of updates.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MAX_REPLICAS;
use crate::duration::GoDuration;

/// Bounds and controls of the update of a set. They may change during an update.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetRollingUpdate {
    /// The number or the percentage of replicas of the set that may be unavailable because of the update. A percentage is rounded down, and is
    /// at least one replica. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<IntOrString>")]
    pub max_unavailable: Option<Value>,
    /// Replicas with a lower index keep their template. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub partition: Option<i32>,
    /// Whether no further pod is replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "Option<bool>")]
    pub paused: bool,
    /// The time in seconds for which a new pod must be ready before the update counts it as available. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
}

/// Bounds of the update of the replicas of a scaling group, or of the pods of a clique outside of scaling groups. They may change during an
/// update.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// The number or the percentage of units that may be unavailable because of the update. A percentage is rounded down, and is at least one
    /// unit. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<IntOrString>")]
    pub max_unavailable: Option<Value>,
    /// The time without progress after which the condition `UpdateInProgress` reports `ProgressDeadlineExceeded`. The update goes on. By default,
    /// there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<GoDuration>,
}
