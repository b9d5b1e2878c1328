//! The claims that the pods of a clique share ([ADR 28](../../../docs/adr/0028-resource-claims.md)). The steps of the reconciler of cliques are in
//! files of the same names; the others contain the informers (`informers`), the live reads of templates (`template_reads`), the claims whose
//! use has ended (`retired_claims`), and cliques as the owners of claims (`clique_owner`).

mod clique_owner;
mod desired;
mod informers;
mod observe;
mod observed;
mod plan;
mod retired_claims;
mod status;
mod template_reads;
mod triggers;

pub(crate) use clique_owner::CliqueOwner;
pub(crate) use desired::CLAIM_KINDS;
pub(crate) use informers::ClaimCaches;
pub(crate) use observe::observe;
#[cfg(test)]
pub(crate) use observe::{in_annotation, reference_state};
pub(crate) use observed::ObservedClaims;
#[cfg(test)]
pub(crate) use observed::{OwnClaim, ReferenceState, ReferencedClaim, TemplateState, pod_index_of_claim};
pub(crate) use plan::{delete_all, plan};
pub(crate) use retired_claims::RetiredClaims;
pub(crate) use status::{condition, reason_of_missing};
pub(crate) use template_reads::read_templates;
pub(crate) use triggers::{BY_CLAIM_AND_TEMPLATE, watch};
