//! The resource claims of a clique: one that all its pods share, or one per pod.

use grove_api_types::events;
use grove_api_types::names::{ClaimOwner, PodCliqueName};
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::resource_sharing::claim::{claim_labels, claim_metadata, drift, resource_claim};
use grove_controller::children::{ChildEvents, ChildKind, ChildKinds, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::ResourceExt;

use super::clique_owner::{ClaimContent, ClaimExpansion, CliqueOwner, DesiredClaim};
use crate::stage;

/// The children of a clique besides its pods.
pub(crate) const CLAIM_KINDS: ChildKinds<CliqueOwner> = ChildKinds::in_creation_order(&[&ResourceClaims]);

/// The claims of cliques.
struct ResourceClaims;

impl ChildKind for ResourceClaims {
    type Owner = CliqueOwner;
    type Object = ResourceClaim;

    const STAGE: &'static str = stage::CLAIMS;
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::RESOURCE_CLAIM_CREATE_SUCCESSFUL),
        create_or_update_failed: events::RESOURCE_CLAIM_CREATE_FAILED,
        deleted: Some((events::RESOURCE_CLAIM_DELETE_SUCCESSFUL, events::RESOURCE_CLAIM_DELETE_FAILED)),
    };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create, restore and delete the claims of a clique; list and watch also find the claims of the set and of the \
                      scaling group";
        vec![PolicyRule::for_resource::<ResourceClaim>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r ClaimExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> ResourceClaim>> {
        expansion.claims.iter().map(move |claim| {
            let desired = DesiredChild::new(claim.name.as_str(), move || desired_claim(expansion, claim));
            match &claim.content {
                ClaimContent::Blocked(waiting) => desired.blocked_by(|| waiting.clone()),
                ClaimContent::Existing | ClaimContent::Missing(_) => desired,
            }
        })
    }

    /// Restores the labels and the reference to the clique. Nothing else of an existing claim changes.
    fn patch(live: &ResourceClaim, desired: ResourceClaim) -> Option<Step> {
        let change = drift(live, &desired.metadata)?;
        Some(Step::merge_patch_with_optimistic_lock(live, change))
    }

    fn is_deletable(live: &ResourceClaim, expansion: &ClaimExpansion<'_>) -> bool {
        live.metadata.name.as_ref().is_some_and(|name| expansion.deletable.contains(name))
    }
}

/// An existing claim is compared without the labels of its template, which may have changed since.
fn desired_claim(expansion: &ClaimExpansion<'_>, claim: &DesiredClaim<'_>) -> ResourceClaim {
    let ClaimExpansion { clique, set, claims: _, deletable: _ } = expansion;
    let DesiredClaim { name, pod_index, content } = claim;
    let owner = PodCliqueName::new(clique.name_any());
    let metadata = claim_metadata(*clique, name, claim_labels(set, ClaimOwner::Clique(&owner), *pod_index));
    match content {
        ClaimContent::Missing(template) => resource_claim(metadata, template),
        ClaimContent::Existing | ClaimContent::Blocked(_) => ResourceClaim { metadata, spec: None },
    }
}
