//! The claims of the pods of a clique. pcs-controller writes them into an annotation of the `PodClique`, because pclq-controller reads no
//! sets. [ADR 28] explains why they are no field of the spec.
//!
//! [ADR 28]: ../../../../docs/adr/0028-resource-claims.md

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::claim_source::{ClaimSource, ExternalTemplate, TemplateReference, sources_for_clique, sources_of_clique};
use crate::annotation_value::{self, UnreadableAnnotation};
use crate::labels::RESOURCE_CLAIMS;
use crate::names::{ClaimOwner, PodCliqueScalingGroupName, PodCliqueSetName, ResourceClaimName};
use crate::raw::RawResourceClaimTemplateSpec;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec, ResourceSharingScope};

/// The claims that the pods of a clique use: the value of the annotation `grove.io/resource-claims`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CliqueClaims {
    /// The UID of the set, for a clique that refers to claims of the set and that a scaling group controls. Nothing else in such a clique has this
    /// UID, and the claims of an earlier set of the same name have the same names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_uid: Option<String>,
    /// The claims of the set and of the scaling group, in the order in which pods refer to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ResourceClaimName>,
    /// The claims of the clique itself, in the order in which pods refer to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<CliqueClaim>,
}

/// A claim of a clique, or a claim of each of its pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueClaim {
    /// The name of the template.
    pub template: String,
    /// The namespace of an external template; `None` for the namespace of the clique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether all pods share the claim, or each pod has its own. An unknown scope is an error: with another one, pods would share devices
    /// that they must not share.
    pub scope: ResourceSharingScope,
    /// The field of the set that refers to the template, for messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The content of an internal template; `None` for an external one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_spec: Option<RawResourceClaimTemplateSpec>,
}

impl CliqueClaim {
    /// The template.
    pub fn template(&self) -> TemplateReference<'_> {
        match &self.template_spec {
            Some(spec) => TemplateReference::Internal(spec),
            None => TemplateReference::External(ExternalTemplate {
                namespace: self.namespace.as_deref(),
                name: &self.template,
            }),
        }
    }

    /// The claim as a source, which names the claims.
    pub fn source(&self) -> ClaimSource<'_> {
        ClaimSource { name: &self.template, template: self.template(), scope: self.scope, field: self.field.clone() }
    }
}

impl From<ClaimSource<'_>> for CliqueClaim {
    fn from(source: ClaimSource<'_>) -> Self {
        let (namespace, template_spec) = match source.template {
            TemplateReference::Internal(spec) => (None, Some(spec.clone())),
            TemplateReference::External(external) => (external.namespace.map(str::to_owned), None),
        };
        let ClaimSource { name, template: _, scope, field } = source;
        Self { template: name.to_owned(), namespace, scope, field, template_spec }
    }
}

impl CliqueClaims {
    /// The claims of the pods of a clique in this replica of the set. `group` is its scaling group with the replica of the group. `None` if
    /// its pods use no claims.
    pub fn of_clique(
        set: &PodCliqueSet,
        replica: i32,
        group: Option<(&PodCliqueScalingGroupConfig, i32)>,
        clique: &PodCliqueTemplateSpec,
    ) -> Option<Self> {
        let template = &set.spec.template;
        let set_name = PodCliqueSetName::new(set.name_any());
        let (of_set, of_group) = sources_for_clique(template, clique, group.map(|(config, _)| config));
        let mut references = names(&of_set, ClaimOwner::Set(&set_name), replica);
        let set_uid = set.uid().filter(|_| group.is_some() && !references.is_empty());
        if let Some((config, group_replica)) = group {
            let name = PodCliqueScalingGroupName::of_replica(&set_name, replica, &config.name);
            references.extend(names(&of_group, ClaimOwner::Group(&name), group_replica));
        }
        let mut seen = BTreeSet::new();
        references.retain(|name| seen.insert(name.clone()));
        let claims = in_scope_order(&sources_of_clique(template, clique)).cloned().map(CliqueClaim::from).collect();
        let claims = Self { set_uid, references, claims };
        (claims != Self::default()).then_some(claims)
    }

    /// The claims in the annotations of a clique; `None` without the annotation.
    ///
    /// # Errors
    /// If the annotation cannot be read.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, UnreadableAnnotation> {
        let text = annotations.get(RESOURCE_CLAIMS);
        text.map(|text| annotation_value::decode(RESOURCE_CLAIMS, text)).transpose()
    }

    /// The value of the annotation.
    pub fn annotation(&self) -> String {
        annotation_value::encode(self)
    }
}

/// The names of the claims of one level, for this replica of the owner.
fn names(sources: &[ClaimSource<'_>], owner: ClaimOwner<'_>, replica: i32) -> Vec<ResourceClaimName> {
    in_scope_order(sources).map(|source| source.claim(owner, replica)).collect()
}

/// The claims of all replicas first, then those per replica.
fn in_scope_order<'s, 'a>(sources: &'s [ClaimSource<'a>]) -> impl Iterator<Item = &'s ClaimSource<'a>> {
    let of_scope = |scope: ResourceSharingScope| sources.iter().filter(move |source| source.scope == scope);
    of_scope(ResourceSharingScope::AllReplicas).chain(of_scope(ResourceSharingScope::PerReplica))
}
