//! Cliques as owners of resource claims, and the input of the desired claims. Pure.

use std::collections::BTreeSet;

use grove_api_types::names::{PodCliqueSetName, ResourceClaimName};
use grove_api_types::resource_claim::ClaimTemplate;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::OwnerKind;
use grove_controller::plan::Waiting;

/// Cliques as owners of claims.
#[derive(Debug)]
pub(crate) struct CliqueOwner;

impl OwnerKind for CliqueOwner {
    type Object = PodClique;
    type Expansion<'a> = ClaimExpansion<'a>;
}

/// A clique with the claims that it needs, and with those to delete. Its other claims stay as they are.
#[derive(Debug)]
pub(crate) struct ClaimExpansion<'a> {
    /// The clique.
    pub(crate) clique: &'a PodClique,
    /// The set of the clique.
    pub(crate) set: PodCliqueSetName,
    /// The needed claims.
    pub(crate) claims: Vec<DesiredClaim<'a>>,
    /// The names of the claims to delete.
    pub(crate) deletable: BTreeSet<String>,
}

/// A claim that a clique needs.
#[derive(Debug)]
pub(crate) struct DesiredClaim<'a> {
    /// Its name.
    pub(crate) name: ResourceClaimName,
    /// The pod that it belongs to; `None` if all pods of the clique share it.
    pub(crate) pod_index: Option<i32>,
    /// How it differs from the observed claim.
    pub(crate) content: ClaimContent<'a>,
}

/// The content of a claim.
#[derive(Debug)]
pub(crate) enum ClaimContent<'a> {
    /// The claim exists; lost labels and owner references are restored.
    Existing,
    /// The claim is created from this template.
    Missing(&'a ClaimTemplate),
    /// The claim cannot be created.
    Blocked(Waiting),
}
