//! The `ResourceClaim`s of sets and of scaling groups: the desired object, its patch, and the permissions.

use std::marker::PhantomData;

use grove_api_types::events;
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::resource_sharing::claim::{claim_labels, claim_metadata, drift, resource_claim};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild, OwnerKind};
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};

use super::observed::OwnedClaims;

/// The failure domain of all claims: one that cannot be created blocks no other child. The pods that use it wait, not their cliques.
const FAILURE_DOMAIN: i32 = -1;

/// A kind of owners of claims.
pub(crate) trait ClaimsOwner: OwnerKind {
    /// The owner, and its claims.
    fn claims<'r, 'a: 'r>(expansion: &'r Self::Expansion<'a>) -> (&'r Self::Object, &'r OwnedClaims<'a>);
}

/// The claims that belong to one kind of owners.
pub(crate) struct ResourceClaims<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> ResourceClaims<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: ClaimsOwner> ChildKind for ResourceClaims<Owner> {
    type Owner = Owner;
    type Object = ResourceClaim;

    const STAGE: &'static str = "resource-claims";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::RESOURCE_CLAIM_CREATE_SUCCESSFUL),
        create_or_update_failed: events::RESOURCE_CLAIM_CREATE_FAILED,
        deleted: Some((events::RESOURCE_CLAIM_DELETE_SUCCESSFUL, events::RESOURCE_CLAIM_DELETE_FAILED)),
    };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create, restore and delete the claims that pods of a set or of a scaling group share";
        vec![PolicyRule::for_resource::<ResourceClaim>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> ResourceClaim>> {
        let (owner, claims) = Owner::claims(expansion);
        claims.required().map(move |claim| {
            let (name, blocked_by) = (claim.name.to_string(), claims.blocked_by(&claim));
            let build = move || {
                let labels = claim_labels(&claims.set, claims.owner.claim_owner(), claim.replica);
                resource_claim(claim_metadata(owner, &claim.name, labels), &claims.template(&claim))
            };
            let desired = DesiredChild::new(name, build).in_failure_domain(FAILURE_DOMAIN);
            match blocked_by {
                Some(waiting) => desired.blocked_by(move || waiting),
                None => desired,
            }
        })
    }

    /// Restores Grove's labels and the owner reference. The spec is immutable, and everything else belongs to others.
    fn patch(live: &ResourceClaim, desired: ResourceClaim) -> Option<Step> {
        drift(live, &desired.metadata).map(|change| Step::merge_patch_with_optimistic_lock(live, change))
    }

    fn is_deletable(live: &ResourceClaim, expansion: &Owner::Expansion<'_>) -> bool {
        Owner::claims(expansion).1.is_deletable(live)
    }
}
