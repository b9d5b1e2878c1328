//! The template of the replicas of a set.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;
use crate::v1alpha1::{
    AutoScalingConfig, MAX_REPLICAS, PcsResourceSharingSpec, PcsgResourceSharingSpec, PodCliqueSpec,
    ResourceClaimTemplateConfig, ResourceSharingSpec, RollingUpdate, SharedResourceClaimTemplates, TopologyConstraint,
};

/// The template of the replicas of a set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetTemplateSpec {
    /// The cliques of a replica.
    #[schemars(length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub cliques: Vec<PodCliqueTemplateSpec>,
    /// The order in which the cliques of a replica start: a pod starts when enough pods of the cliques before it are ready. Defaults to
    /// `CliqueStartupTypeAnyOrder`.
    #[serde(default, deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub clique_startup_type: CliqueStartupType,
    /// The priority class of the gangs. Grove sets it on the `PodGang`s, not on the pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub priority_class_name: String,
    /// The configuration of the headless Service of each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
    /// The topology of constraints without a `topologyName`. Defaults to the topology in the operator configuration. Like the
    /// constraints, it has no effect with a scheduler that does not pack pods by topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_topology_name: Option<String>,
    /// The topology constraint of each replica. Different replicas may be in different domains, and each gang of a replica is packed on
    /// its own. A constraint has no effect with a scheduler that does not pack pods by topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// The time for which the available pods may be fewer than `minAvailable`, before the replica is restarted as a whole. It has no
    /// effect yet: Grove replaces failed pods one by one. Defaults to 4h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<GoDuration>,
    /// Templates of resource claims for this set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ResourceClaimTemplateConfig>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_claim_templates: Vec<ResourceClaimTemplateConfig>,
    /// Resource claims that pods of the whole set share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PcsResourceSharingSpec>>", length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<PcsResourceSharingSpec>,
    /// Groups of cliques that scale together.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "podCliqueScalingGroups")]
    #[schemars(with = "Option<Vec<PodCliqueScalingGroupConfig>>", length(max = 4096))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pod_clique_scaling_groups: Vec<PodCliqueScalingGroupConfig>,
}

/// The order in which the cliques of a replica start.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
pub enum CliqueStartupType {
    /// All cliques start at the same time.
    #[default]
    #[serde(rename = "CliqueStartupTypeAnyOrder")]
    AnyOrder,
    /// Each clique starts after the previous clique of the template.
    #[serde(rename = "CliqueStartupTypeInOrder")]
    InOrder,
    /// Each clique starts after the cliques in its field `startsAfter`.
    #[serde(rename = "CliqueStartupTypeExplicit")]
    Explicit,
}

/// The configuration of the headless Service of a replica.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessServiceConfig {
    /// Whether the Service also publishes the addresses of pods that are not ready. Defaults to true, so that the pods of a gang
    /// can connect to each other while they start.
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

/// The template of a clique: pods with the same role.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueTemplateSpec {
    /// The name of the clique. It is unique within the set, and part of the names of all objects of the clique.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Labels that Grove copies to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that Grove copies to the `PodClique` and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub annotations: BTreeMap<String, String>,
    /// The topology constraint of the pods of each `PodClique`. Different `PodClique`s may be in different domains. A constraint has no
    /// effect with a scheduler that does not pack pods by topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Resource claims that the pods of each `PodClique` share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ResourceSharingSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<ResourceSharingSpec>,
    /// Names of `ResourceClaimTemplate` objects in the namespace of the set. For each template, Grove creates one `ResourceClaim` per
    /// `PodClique`, manages it, and adds it to all pods of the `PodClique`, which so share its devices: the short form of
    /// `resourceSharing` with the scope `AllReplicas`. NOTE: `resourceClaimTemplateName` in `spec.podSpec.resourceClaims` is different:
    /// with it, each pod has a claim of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub resource_claim_template_names: Vec<String>,
    /// Bounds of updates of a clique outside of scaling groups. Not allowed for a clique of a scaling group, whose replicas are updated as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// The spec of the clique.
    pub spec: PodCliqueSpec,
}

/// The template of a scaling group: cliques that scale together.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupConfig {
    /// The name of the group. It is unique within the set, and part of the names of all objects of the group.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The cliques of each replica of the group. A clique is in at most one group.
    #[schemars(length(max = 4096))]
    pub clique_names: Vec<String>,
    /// Annotations that Grove copies to the `PodCliqueScalingGroup`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub annotations: BTreeMap<String, String>,
    /// The initial number of replicas. Defaults to 1.
    #[serde(default = "one", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: Option<i32>,
    /// The number of replicas that are part of the base gang of the set replica, and that must stay available.
    #[serde(default = "one", skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Configures a `HorizontalPodAutoscaler` for the replicas of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_config: Option<AutoScalingConfig>,
    /// Resource claims that pods of the whole group share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PcsgResourceSharingSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resource_sharing: Vec<PcsgResourceSharingSpec>,
    /// Resource claims that cliques of each replica of the group share: the short form of `resourceSharing` with the scope
    /// `PerReplica`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SharedResourceClaimTemplates>>")]
    pub resource_claim_template_configs: Vec<SharedResourceClaimTemplates>,
    /// The topology constraint of each replica of the group. Different replicas may be in different domains. A constraint has no effect
    /// with a scheduler that does not pack pods by topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Bounds of updates of the replicas of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

impl PodCliqueScalingGroupConfig {
    /// The initial number of replicas.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// The number of replicas that are part of the base gang of the set replica.
    pub fn min_available(&self) -> i32 {
        self.min_available.unwrap_or(1)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn one() -> Option<i32> {
    Some(1)
}
