//! Resource claims that pods share: which templates, by whom, and one claim for how many.

use k8s_openapi::api::resource::v1::ResourceClaimTemplateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::raw::RawResourceClaimTemplateSpec;

/// A template of claims, kept within the set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaimTemplateConfig {
    /// The name by which `resourceSharing` refers to the template.
    pub name: String,
    /// What the claims ask for.
    #[schemars(with = "ResourceClaimTemplateSpec")]
    pub template_spec: RawResourceClaimTemplateSpec,
}

/// For how many pods one claim is made.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub enum ResourceSharingScope {
    /// One claim that all replicas of the level share.
    AllReplicas,
    /// One claim per replica of the level.
    PerReplica,
}

/// Claims shared by the pods of a clique.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSharingSpec {
    /// The template: one of the set's `resourceClaimTemplates`, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate`; absent means the set's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all pods of the clique, or one per pod.
    pub scope: ResourceSharingScope,
}

/// Claims shared by pods across the set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsResourceSharingSpec {
    /// The template: one of the set's `resourceClaimTemplates`, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate`; absent means the set's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all replicas of the set, or one per replica.
    pub scope: ResourceSharingScope,
    /// Who shares; absent means all pods of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<PcsResourceSharingFilter>,
}

/// The parts of a set that share a claim.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsResourceSharingFilter {
    /// Cliques, in a scaling group or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_clique_names: Vec<String>,
    /// Scaling groups, with all their cliques.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_scaling_group_names: Vec<String>,
}

/// Claims shared by pods across a scaling group.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsgResourceSharingSpec {
    /// The template: one of the set's `resourceClaimTemplates`, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate`; absent means the set's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all replicas of the scaling group, or one per replica.
    pub scope: ResourceSharingScope,
    /// Who shares; absent means all cliques of the scaling group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<PcsgResourceSharingFilter>,
}

/// The cliques of a scaling group that share a claim.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsgResourceSharingFilter {
    /// Cliques of the scaling group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_clique_names: Vec<String>,
}

/// Claims shared by cliques of each replica of a scaling group: the short form of `resourceSharing` with scope
/// `PerReplica`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedResourceClaimTemplates {
    /// `ResourceClaimTemplate` objects in the namespace of the set. Each is one claim per replica of the scaling group.
    pub names: Vec<String>,
    /// The cliques that share; none named means all of the scaling group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub clique_names: Vec<String>,
}
