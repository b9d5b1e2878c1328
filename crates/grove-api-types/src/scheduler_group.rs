//! Group `scheduler.grove.io/v1alpha1`: what Grove tells schedulers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods that are scheduled together or not at all.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "scheduler.grove.io",
    version = "v1alpha1",
    kind = "PodGang",
    plural = "podgangs",
    singular = "podgang",
    shortname = "pg",
    namespaced,
    status = "PodGangStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodGangSpec {
    /// One group of identical pods per clique of the gang.
    pub podgroups: Vec<PodGroup>,
    /// Priority class of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Identical pods of a gang.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    /// Name of the `PodClique` whose pods these are.
    pub name: String,
    /// The pods, sorted by name. Written by pclq-controller.
    pub pod_references: Vec<NamespacedName>,
    /// How many of the pods the gang needs at least.
    pub min_replicas: i32,
}

/// An object of some namespace.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is known about a gang.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// Where the gang is in its life.
    pub phase: PodGangPhase,
    /// `Initialized` is Grove's; the others are the scheduler's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    pub conditions: Vec<Condition>,
}

/// Where a gang is in its life.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum PodGangPhase {
    /// Some pod of the minimum is not scheduled.
    #[default]
    Pending,
    /// The minimum is scheduled, and not all of it is ready.
    Starting,
    /// The minimum is ready.
    Running,
}
