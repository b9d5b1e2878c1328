//! Code that the children of sets and of scaling groups share: desired objects, drift, and the messages for rejected writes.

use std::sync::Arc;

use grove_controller::children::ByName;
use kube::{Resource, ResourceExt};

mod awaited_domains;
mod claims;
pub(crate) mod claims_condition;
pub(crate) mod clique;
pub(crate) mod desired;
pub(crate) mod drift;
mod pack_affinities;
pub(crate) mod rejections;
pub(crate) mod too_large;

pub(crate) use awaited_domains::{AwaitedDomain, AwaitedDomains, DomainState};
pub(crate) use claims::{
    ClaimInputs, OwnedClaims, OwnerName, ReadTemplate, RequiredClaim, TemplateKey, referenced_claims,
};
pub(crate) use pack_affinities::pack_affinities;

/// The objects by name. All are in one namespace.
pub(crate) fn by_name<K: Resource>(objects: impl IntoIterator<Item = Arc<K>>) -> ByName<K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}
