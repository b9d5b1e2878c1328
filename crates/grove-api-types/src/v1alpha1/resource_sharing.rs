//! Resource sharing: the claim templates, the pods that share a claim, and the number of claims.

use k8s_openapi::api::resource::v1::ResourceClaimTemplateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::raw::RawResourceClaimTemplateSpec;

/// A claim template within the set.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaimTemplateConfig {
    /// The name of the template; `resourceSharing` refers to it.
    pub name: String,
    /// The labels, the annotations and the spec of the claims.
    #[schemars(with = "ResourceClaimTemplateSpec")]
    pub template_spec: RawResourceClaimTemplateSpec,
}

/// The scope of a shared claim.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub enum ResourceSharingScope {
    /// One claim, which all replicas of the level share.
    #[default]
    AllReplicas,
    /// One claim per replica of the level.
    PerReplica,
}

/// Claims that the pods of a clique share.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSharingSpec {
    /// The name of the template: one of the `resourceClaimTemplates` of the set, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate` object. Defaults to the namespace of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `AllReplicas`: one claim for all pods of the clique; `PerReplica`: one claim per pod.
    #[serde(deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub scope: ResourceSharingScope,
}

/// Claims that pods of the whole set share.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsResourceSharingSpec {
    /// The name of the template: one of the `resourceClaimTemplates` of the set, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate` object. Defaults to the namespace of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `AllReplicas`: one claim for all replicas of the set; `PerReplica`: one claim per replica.
    #[serde(deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub scope: ResourceSharingScope,
    /// The pods that share the claim. Without a filter all pods of the set share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<PcsResourceSharingFilter>,
}

/// The parts of a set that share a claim.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsResourceSharingFilter {
    /// The cliques that share the claim: standalone cliques and cliques of scaling groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_clique_names: Vec<String>,
    /// The scaling groups that share the claim with all their cliques.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_scaling_group_names: Vec<String>,
}

/// Claims that pods of a whole scaling group share.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsgResourceSharingSpec {
    /// The name of the template: one of the `resourceClaimTemplates` of the set, or a `ResourceClaimTemplate` object.
    pub name: String,
    /// The namespace of the `ResourceClaimTemplate` object. Defaults to the namespace of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `AllReplicas`: one claim for all replicas of the scaling group; `PerReplica`: one claim per replica.
    #[serde(deserialize_with = "crate::enum_decoding::unknown_as_default")]
    pub scope: ResourceSharingScope,
    /// The pods that share the claim. Without a filter all cliques of the scaling group share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<PcsgResourceSharingFilter>,
}

/// The cliques of a scaling group that share a claim.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PcsgResourceSharingFilter {
    /// The cliques of the scaling group that share the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub child_clique_names: Vec<String>,
}

/// Claims that cliques of each replica of a scaling group share: the short form of `resourceSharing` with the scope
/// `PerReplica`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedResourceClaimTemplates {
    /// Names of `ResourceClaimTemplate` objects in the namespace of the set. Grove creates one claim per template and replica of
    /// the scaling group.
    pub names: Vec<String>,
    /// The cliques that share the claims. An empty list means all cliques of the scaling group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub clique_names: Vec<String>,
}
