//! The `ResourceClaim`s that pods of a whole scaling group, or of one replica of the group, share.

use grove_api_types::resource_claim::ResourceClaim;
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::rbac::PolicyRule;

use crate::children::desired::resource_claim;
use crate::scaling_group::observed::{GroupExpansion, GroupOwner};

/// The claims at the level of the scaling group.
pub(crate) struct ResourceClaims;

impl ChildKind for ResourceClaims {
    type Owner = GroupOwner;
    type Object = ResourceClaim;

    const STAGE: &'static str = resource_claim::STAGE;
    const EVENTS: ChildEvents = resource_claim::EVENTS;

    fn rules() -> Vec<PolicyRule> {
        resource_claim::rules()
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r GroupExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> ResourceClaim>> {
        resource_claim::desired(expansion.group, &expansion.claims)
    }

    fn patch(live: &ResourceClaim, desired: ResourceClaim) -> Option<Step> {
        resource_claim::patch(live, &desired)
    }

    fn is_deletable(live: &ResourceClaim, expansion: &GroupExpansion<'_>) -> bool {
        expansion.claims.is_deletable(live)
    }
}
