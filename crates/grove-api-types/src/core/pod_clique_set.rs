//! `PodCliqueSet`: the one object a user writes.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LastError, PodCliqueSpec};

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
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetSpec {
    /// How many copies of the template run. Absent means 0: such a set creates nothing.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// What each replica consists of.
    pub template: PodCliqueSetTemplate,
}

/// What one replica of a set consists of.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetTemplate {
    /// The cliques of a replica, one `PodClique` each.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub cliques: Vec<PodCliqueTemplate>,
    /// Priority class of the gangs. It reaches the `PodGang`s and the hashes, not the pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "optional_string")]
    pub priority_class_name: String,
    /// How the headless Service of each replica publishes its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
}

/// A plain optional string: absent and empty mean the same, so the schema writes no default into stored objects.
fn optional_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "description": "Priority class of the gangs. It reaches the PodGangs and the hashes, not the pods."
    })
}

/// How the headless Service of a replica publishes its pods.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessServiceConfig {
    /// Whether the addresses of pods that are not ready are published too. Defaults to true, so that the pods of a gang
    /// find one another while they start.
    #[serde(default = "publish_by_default")]
    pub publish_not_ready_addresses: bool,
}

impl Default for HeadlessServiceConfig {
    fn default() -> Self {
        Self { publish_not_ready_addresses: publish_by_default() }
    }
}

fn publish_by_default() -> bool {
    true
}

/// One clique of the template: pods that play the same role.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueTemplate {
    /// Role name inside the set; part of the names of everything made for the clique.
    pub name: String,
    /// Labels copied to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub labels: BTreeMap<String, String>,
    /// Annotations copied to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub annotations: BTreeMap<String, String>,
    /// What the clique runs.
    pub spec: PodCliqueSpec,
}

/// What is known about a set; written by pcs-controller.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Available` says whether every replica is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Condition>>")]
    pub conditions: Vec<Condition>,
    /// Errors of the last reconcile; absent after one that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<LastError>>")]
    pub last_errors: Vec<LastError>,
    /// Replicas asked for, as the scale subresource reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas all of whose cliques run the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Replicas none of whose cliques is below its `minAvailable`.
    #[serde(default)]
    pub available_replicas: i32,
    /// Selector of the pods of the set, as the scale subresource reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// Hash of the templates that the set was last reconciled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
}
