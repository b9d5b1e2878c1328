//! The claims of a set or of a scaling group: which ones it needs, why one cannot be created, and which ones may be deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use grove_api_types::conditions::resource_claims_created;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::{ClaimOwner, PodCliqueScalingGroupName, PodCliqueSetName, ResourceClaimName};
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim};
use grove_api_types::resource_sharing::claim_source::{ClaimSource, ExternalTemplate, TemplateReference};
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::ObservedChildren;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Waiting;
use grove_controller::template_access::denied_template;
use kube::{Resource, ResourceExt};

/// Namespace and name of a `ResourceClaimTemplate`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TemplateKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for TemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A `ResourceClaimTemplate`, as a live read has shown it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadTemplate {
    /// It exists.
    Found(Arc<ClaimTemplate>),
    /// It does not exist.
    NotFound,
    /// The API server does not return it, for this reason.
    Unreadable(String),
}

/// What decides about the claims of an owner, besides the claims that exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimInputs {
    /// Why no claim can be created or read.
    pub(crate) unavailable: Option<Waiting>,
    /// Why no `ResourceClaimTemplate` can be read.
    pub(crate) unavailable_templates: Option<Waiting>,
    /// Why no template of another namespace may be used.
    pub(crate) denied_templates: Option<Waiting>,
    /// The external templates of the missing claims.
    pub(crate) templates: BTreeMap<TemplateKey, ReadTemplate>,
    /// The names of claims that other objects have.
    pub(crate) conflicting: BTreeSet<String>,
    /// The names of the claims that cliques refer to.
    pub(crate) referenced: BTreeSet<String>,
}

impl ClaimInputs {
    /// The claims among the conflicts.
    pub(crate) fn conflicting(conflicts: &[NameConflict]) -> BTreeSet<String> {
        let of_claims = conflicts.iter().filter(|conflict| is_claim(conflict));
        of_claims.map(|conflict| conflict.target.name.clone()).collect()
    }
}

fn is_claim(conflict: &NameConflict) -> bool {
    conflict.target.resource.kind == ResourceClaim::kind(&())
}

/// The owner of claims.
#[derive(Clone, Debug)]
pub(crate) enum OwnerName {
    Set(PodCliqueSetName),
    Group(PodCliqueScalingGroupName),
}

impl OwnerName {
    pub(crate) fn claim_owner(&self) -> ClaimOwner<'_> {
        match self {
            Self::Set(name) => ClaimOwner::Set(name),
            Self::Group(name) => ClaimOwner::Group(name),
        }
    }
}

/// The claims that a set or a scaling group needs.
#[derive(Clone, Debug)]
pub(crate) struct OwnedClaims<'a> {
    pub(crate) set: PodCliqueSetName,
    pub(crate) owner: OwnerName,
    /// The namespace of the owner.
    pub(crate) namespace: String,
    /// The number of replicas of the owner.
    pub(crate) replicas: i32,
    pub(crate) sources: Vec<ClaimSource<'a>>,
    pub(crate) inputs: &'a ClaimInputs,
}

/// A claim that an owner needs.
#[derive(Clone, Debug)]
pub(crate) struct RequiredClaim<'r, 'a> {
    pub(crate) name: ResourceClaimName,
    /// The replica of the owner; `None` if all replicas share the claim.
    pub(crate) replica: Option<i32>,
    pub(crate) source: &'r ClaimSource<'a>,
}

impl<'a> OwnedClaims<'a> {
    /// The claims, those of all templates in the order of the set.
    pub(crate) fn required(&self) -> impl Iterator<Item = RequiredClaim<'_, 'a>> {
        self.sources.iter().flat_map(|source| {
            let claims = source.claims(self.owner.claim_owner(), self.replicas);
            claims.map(move |(replica, name)| RequiredClaim { name, replica, source })
        })
    }

    /// Why this claim cannot be created. An object with its name is a name conflict instead.
    pub(crate) fn blocked_by(&self, claim: &RequiredClaim<'_, '_>) -> Option<Waiting> {
        if let Some(unavailable) = &self.inputs.unavailable {
            return Some(unavailable.clone());
        }
        let TemplateReference::External(external) = claim.source.template else { return None };
        if self.inputs.conflicting.contains(claim.name.as_str()) {
            return None;
        }
        if let Some(unavailable) = &self.inputs.unavailable_templates {
            return Some(unavailable.clone());
        }
        if let Some(denied) = self.denied(external) {
            return Some(denied.clone());
        }
        let (key, field) = (self.template_key(external), &claim.source.field);
        match self.inputs.templates.get(&key) {
            Some(ReadTemplate::Found(_)) => None,
            Some(ReadTemplate::NotFound) => Some(Waiting::new(
                resource_claims_created::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND,
                format!("ResourceClaimTemplate {key} of {field} does not exist; create it"),
            )),
            Some(ReadTemplate::Unreadable(reason)) => Some(Waiting::new(
                resource_claims_created::RESOURCE_CLAIMS_PENDING,
                format!("ResourceClaimTemplate {key} of {field} cannot be read: {reason}"),
            )),
            None => Some(Waiting::new(
                resource_claims_created::RESOURCE_CLAIMS_PENDING,
                format!("ResourceClaimTemplate {key} of {field} is read by the next reconcile"),
            )),
        }
    }

    fn denied(&self, template: ExternalTemplate<'_>) -> Option<&Waiting> {
        denied_template(self.inputs.denied_templates.as_ref(), &self.namespace, template)
    }

    /// The content of this claim; empty for an existing claim from a `ResourceClaimTemplate`.
    pub(crate) fn template(&self, claim: &RequiredClaim<'_, '_>) -> Arc<ClaimTemplate> {
        match claim.source.template {
            TemplateReference::Internal(spec) => Arc::new(spec.into()),
            TemplateReference::External(external) => match self.inputs.templates.get(&self.template_key(external)) {
                Some(ReadTemplate::Found(template)) => Arc::clone(template),
                Some(ReadTemplate::NotFound | ReadTemplate::Unreadable(_)) | None => Arc::default(),
            },
        }
    }

    /// The external templates of the missing claims, each with whether an object of its name can exist.
    pub(crate) fn templates_to_read(&self, children: &ObservedChildren) -> BTreeMap<TemplateKey, bool> {
        if self.inputs.unavailable.is_some() || self.inputs.unavailable_templates.is_some() {
            return BTreeMap::new();
        }
        let is_missing = |claim: &RequiredClaim<'_, '_>| {
            let name = claim.name.as_str();
            children.get::<ResourceClaim>(name).is_none() && !self.inputs.conflicting.contains(name)
        };
        let template = |claim: RequiredClaim<'_, '_>| match claim.source.template {
            TemplateReference::External(external) if self.denied(external).is_none() => {
                Some((self.template_key(external), external.is_valid()))
            }
            TemplateReference::External(_) | TemplateReference::Internal(_) => None,
        };
        self.required().filter(is_missing).filter_map(template).collect()
    }

    /// Whether a claim of a removed replica may be deleted now. Kubernetes deletes an allocated claim after the pods that use it. A claim
    /// that is not allocated would be deleted at once, so it stays as long as a clique refers to it.
    pub(crate) fn is_deletable(&self, claim: &ResourceClaim) -> bool {
        claim.is_allocated() || !self.inputs.referenced.contains(&claim.name_any())
    }

    fn template_key(&self, external: ExternalTemplate<'_>) -> TemplateKey {
        let namespace = external.namespace.unwrap_or(&self.namespace).to_owned();
        TemplateKey { namespace, name: external.name.to_owned() }
    }
}

/// The names of the claims that these cliques refer to, or may refer to. They matter only if a claim of a removed replica is not allocated: otherwise
/// `cliques` is not called.
pub(crate) fn referenced_claims(
    claims: &OwnedClaims<'_>,
    children: &ObservedChildren,
    cliques: impl FnOnce() -> Vec<Arc<PodClique>>,
) -> BTreeSet<String> {
    let unallocated = |claim: &&Arc<ResourceClaim>| !is_terminating(&***claim) && !claim.is_allocated();
    let unallocated: BTreeSet<_> =
        children.of_kind::<ResourceClaim>().filter(unallocated).map(|claim| claim.name_any()).collect();
    if unallocated.is_empty() {
        return BTreeSet::new();
    }
    let required: BTreeSet<String> = claims.required().map(|claim| claim.name.to_string()).collect();
    if unallocated.is_subset(&required) {
        return BTreeSet::new();
    }
    let of_clique = |clique: &Arc<PodClique>| CliqueClaims::from_annotations(clique.annotations());
    match cliques().iter().map(of_clique).collect::<Result<Vec<_>, _>>() {
        Ok(claims) => claims.into_iter().flatten().flat_map(|claims| claims.references).map(String::from).collect(),
        // A clique with an annotation that cannot be read may refer to each of them.
        Err(_) => unallocated,
    }
}
