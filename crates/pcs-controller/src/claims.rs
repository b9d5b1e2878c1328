//! The claims that the pods of a set or of a scaling group share ([ADR 28](../../../docs/adr/0028-resource-claims.md)): which ones an owner needs
//! (`observed`), the claims as its children (`desired`), what the plan waits for (`plan`), the condition of the owner (`status`), and the
//! informers and live reads of their templates (`informers`).

mod desired;
mod informers;
mod observed;
pub(crate) mod plan;
pub(crate) mod status;

pub(crate) use desired::{ClaimsOwner, ResourceClaims};
pub(crate) use informers::{ClaimCaches, SETS_BY_CLAIM_TEMPLATE, rules, sets_of_deleted_cliques};
#[cfg(test)]
pub(crate) use observed::ReadTemplate;
pub(crate) use observed::{ClaimInputs, OwnedClaims, OwnerName, TemplateKey, referenced_claims};
