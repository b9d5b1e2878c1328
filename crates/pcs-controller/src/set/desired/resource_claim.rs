//! The `ResourceClaim`s that pods of the whole set, or of one replica of the set, share.

use grove_api_types::resource_claim::ResourceClaim;
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::rbac::PolicyRule;

use crate::children::desired::resource_claim;
use crate::set::observed::{SetExpansion, SetOwner};

/// The claims at the level of the set.
pub(crate) struct ResourceClaims;

impl ChildKind for ResourceClaims {
    type Owner = SetOwner;
    type Object = ResourceClaim;

    const STAGE: &'static str = resource_claim::STAGE;
    const EVENTS: ChildEvents = resource_claim::EVENTS;

    fn rules() -> Vec<PolicyRule> {
        resource_claim::rules()
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> ResourceClaim>> {
        resource_claim::desired(expansion.set, &expansion.claims)
    }

    fn patch(live: &ResourceClaim, desired: ResourceClaim) -> Option<Step> {
        resource_claim::patch(live, &desired)
    }

    fn is_deletable(live: &ResourceClaim, expansion: &SetExpansion<'_>) -> bool {
        expansion.claims.is_deletable(live)
    }
}
