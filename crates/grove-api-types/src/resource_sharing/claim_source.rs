//! The sources of claims: for each level, the templates with their scopes, and the names of the claims that follow from them.

use std::collections::BTreeSet;

use super::{SharedClaim, of_clique, of_group, of_set};
use crate::names::{ClaimOwner, ResourceClaimName};
use crate::raw::RawResourceClaimTemplateSpec;
use crate::syntax::{dns_label, dns_subdomain};
use crate::v1alpha1::{
    PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec, ResourceSharingScope,
};

/// The template of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TemplateReference<'a> {
    /// A template of the set.
    Internal(&'a RawResourceClaimTemplateSpec),
    /// A `ResourceClaimTemplate` object.
    External(ExternalTemplate<'a>),
}

/// A reference to a `ResourceClaimTemplate` object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalTemplate<'a> {
    /// Its namespace; `None` for the namespace of the claim.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
}

impl<'a> ExternalTemplate<'a> {
    /// The namespace of the template, if it is another one than that of the claim.
    pub fn other_namespace(&self, own: &str) -> Option<&'a str> {
        self.namespace.filter(|namespace| *namespace != own)
    }

    /// Whether an object of this namespace and name can exist. The API server may store a set with other names if it bypassed admission.
    pub fn is_valid(&self) -> bool {
        dns_subdomain(self.name).is_ok() && self.namespace.is_none_or(|namespace| dns_label(namespace).is_ok())
    }
}

/// A template that one level shares: the source of one claim, or of one claim per replica.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimSource<'a> {
    /// The name in the reference to the template.
    pub name: &'a str,
    /// The template.
    pub template: TemplateReference<'a>,
    /// The scope of one claim.
    pub scope: ResourceSharingScope,
    /// The field of the set that refers to the template, for messages.
    pub field: String,
}

impl ClaimSource<'_> {
    /// The claim of this replica of the owner. The scope decides whether the replica matters.
    pub fn claim(&self, owner: ClaimOwner<'_>, replica: i32) -> ResourceClaimName {
        match self.scope {
            ResourceSharingScope::AllReplicas => ResourceClaimName::of_all_replicas(owner, self.name),
            ResourceSharingScope::PerReplica => ResourceClaimName::of_replica(owner, replica, self.name),
        }
    }

    /// All claims of an owner with this number of replicas, each with its replica; `None` for the claim that all replicas share.
    pub fn claims<'s>(
        &'s self,
        owner: ClaimOwner<'s>,
        replicas: i32,
    ) -> impl Iterator<Item = (Option<i32>, ResourceClaimName)> + 's {
        self.replicas(replicas).map(move |replica| (replica, self.claim(owner, replica.unwrap_or_default())))
    }

    /// The replica of each claim of an owner with this number of replicas; `None` for the claim that all replicas share.
    pub fn replicas(&self, replicas: i32) -> impl Iterator<Item = Option<i32>> + use<> {
        let (shared, replicas) = match self.scope {
            ResourceSharingScope::AllReplicas => (Some(None), 0),
            ResourceSharingScope::PerReplica => (None, replicas),
        };
        shared.into_iter().chain((0..replicas).map(Some))
    }
}

/// The sources of the claims of a set.
pub fn sources_of_set(template: &PodCliqueSetTemplateSpec) -> Vec<ClaimSource<'_>> {
    sources(template, "spec.template", of_set(template))
}

/// The sources of the claims of a scaling group.
pub fn sources_of_group<'a>(
    template: &'a PodCliqueSetTemplateSpec,
    group: &'a PodCliqueScalingGroupConfig,
) -> Vec<ClaimSource<'a>> {
    sources(template, &group_field(template, group), of_group(group))
}

/// The sources of the claims of a clique.
pub fn sources_of_clique<'a>(
    template: &'a PodCliqueSetTemplateSpec,
    clique: &'a PodCliqueTemplateSpec,
) -> Vec<ClaimSource<'a>> {
    let at = template.cliques.iter().position(|other| other.name == clique.name).unwrap_or_default();
    sources(template, &format!("spec.template.cliques[{at}]"), of_clique(clique))
}

/// Whether any level of the set shares claims.
pub fn shares_claims(template: &PodCliqueSetTemplateSpec) -> bool {
    !template.resource_sharing.is_empty()
        || template.pod_clique_scaling_groups.iter().any(|group| !of_group(group).is_empty())
        || template.cliques.iter().any(|clique| !of_clique(clique).is_empty())
}

/// The sources of those claims that the pods of a clique get from the set or from its scaling group.
pub(super) fn sources_for_clique<'a>(
    template: &'a PodCliqueSetTemplateSpec,
    clique: &PodCliqueTemplateSpec,
    group: Option<&'a PodCliqueScalingGroupConfig>,
) -> (Vec<ClaimSource<'a>>, Vec<ClaimSource<'a>>) {
    let name = group.map(|group| group.name.as_str());
    let mut set = of_set(template);
    set.retain(|share| share.applies_to(&clique.name, name));
    let mut shares = group.map(of_group).unwrap_or_default();
    shares.retain(|share| share.applies_to(&clique.name, None));
    let field = group.map(|group| group_field(template, group)).unwrap_or_default();
    (sources(template, "spec.template", set), sources(template, &field, shares))
}

fn group_field(template: &PodCliqueSetTemplateSpec, group: &PodCliqueScalingGroupConfig) -> String {
    let at = template.pod_clique_scaling_groups.iter().position(|other| other.name == group.name).unwrap_or_default();
    format!("spec.template.podCliqueScalingGroups[{at}]")
}

/// The sources of one level. If two have claims of the same name, only the first counts; admission denies the second one.
fn sources<'a>(
    template: &'a PodCliqueSetTemplateSpec,
    level: &str,
    shares: Vec<SharedClaim<'a>>,
) -> Vec<ClaimSource<'a>> {
    let mut seen = BTreeSet::new();
    let shares = shares.into_iter().filter(|share| seen.insert((share.scope, share.template)));
    let internal = |share: &SharedClaim<'a>| {
        let is_internal = share.namespace.is_none() && !share.is_short;
        let mut internal = template.resource_claim_templates.iter().filter(|_| is_internal);
        internal.find(|internal| internal.name == share.template)
    };
    let source = |share: SharedClaim<'a>| ClaimSource {
        name: share.template,
        template: match internal(&share) {
            Some(internal) => TemplateReference::Internal(&internal.template_spec),
            None => TemplateReference::External(ExternalTemplate { namespace: share.namespace, name: share.template }),
        },
        scope: share.scope,
        field: format!("{level}.{}", share.field),
    };
    shares.map(source).collect()
}
