//! What one replica of a set consists of.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::v1alpha1::{
    AutoScalingConfig, PcsResourceSharingSpec, PcsgResourceSharingSpec, PodCliqueSpec, ResourceClaimTemplateConfig,
    ResourceSharingSpec, SharedResourceClaimTemplates, TopologyConstraint,
};

/// What one replica of a set consists of.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetTemplateSpec {
    /// The cliques of a replica.
    #[schemars(length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub cliques: Vec<PodCliqueTemplateSpec>,
    /// In which order the pods of a replica start.
    #[serde(default)]
    pub clique_startup_type: CliqueStartupType,
    /// Priority class of the gangs. It reaches the `PodGang`s and the hashes, not the pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub priority_class_name: String,
    /// How the headless Service of each replica publishes its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
    /// The topology that constraints without a name of their own refer to; absent means the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_topology_name: Option<String>,
    /// How close together each replica is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// How long fewer than `minAvailable` pods may be available before the replica is restarted as a whole. Defaults to
    /// four hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<Duration>,
    /// Templates of resource claims that only this set uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ResourceClaimTemplateConfig>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_claim_templates: Vec<ResourceClaimTemplateConfig>,
    /// Resource claims that pods across the set share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PcsResourceSharingSpec>>", length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<PcsResourceSharingSpec>,
    /// Cliques of a replica that scale together.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "podCliqueScalingGroups")]
    #[schemars(with = "Option<Vec<PodCliqueScalingGroupConfig>>", length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pod_clique_scaling_groups: Vec<PodCliqueScalingGroupConfig>,
}

/// In which order the pods of a replica start.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum CliqueStartupType {
    /// All at once.
    #[default]
    #[serde(rename = "CliqueStartupTypeAnyOrder")]
    AnyOrder,
    /// Each clique after the one before it in the template.
    #[serde(rename = "CliqueStartupTypeInOrder")]
    InOrder,
    /// Each clique after those that its `startsAfter` names.
    #[serde(rename = "CliqueStartupTypeExplicit")]
    Explicit,
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
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueTemplateSpec {
    /// Role name inside the set; part of the names of everything made for the clique.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Labels copied to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub labels: BTreeMap<String, String>,
    /// Annotations copied to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub annotations: BTreeMap<String, String>,
    /// How close together the pods of each `PodClique` are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Resource claims that the pods of each `PodClique` share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ResourceSharingSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<ResourceSharingSpec>,
    /// `ResourceClaimTemplate` objects in the namespace of the set, each one claim that all pods of a `PodClique` share:
    /// the short form of `resourceSharing` with scope `AllReplicas`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub resource_claim_template_names: Vec<String>,
    /// What the clique runs.
    pub spec: PodCliqueSpec,
}

/// Cliques of the template that scale together.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupConfig {
    /// Name inside the set; part of the names of everything made for the group.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The cliques of each replica of the group. A clique can be in one group only.
    #[schemars(length(max = 4096))]
    pub clique_names: Vec<String>,
    /// Annotations copied to the `PodCliqueScalingGroup`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub annotations: BTreeMap<String, String>,
    /// With how many replicas the group begins.
    #[serde(default = "one", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<i32>,
    /// How many replicas are scheduled together with the rest of the set's replica, and must stay available.
    #[serde(default = "one", skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Lets an autoscaler choose how many replicas the group has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_config: Option<AutoScalingConfig>,
    /// Resource claims that pods across the group share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PcsgResourceSharingSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<PcsgResourceSharingSpec>,
    /// Resource claims that cliques of each replica of the group share: the short form of `resourceSharing` with scope
    /// `PerReplica`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SharedResourceClaimTemplates>>")]
    pub resource_claim_template_configs: Vec<SharedResourceClaimTemplates>,
    /// How close together each replica of the group is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

impl PodCliqueScalingGroupConfig {
    /// With how many replicas the group begins.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// How many replicas are scheduled together with the rest of the set's replica.
    pub fn min_available(&self) -> i32 {
        self.min_available.unwrap_or(1)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn one() -> Option<i32> {
    Some(1)
}
