//! The condition of a set about claims: its own ones, and those of its scaling groups and cliques that only a user can correct.

use grove_api_types::resource_sharing::claim_source::shares_claims;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::conditions::ConditionUpdate;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflicts;

use crate::children::OwnedClaims;
use crate::children::claims_condition::{ClaimsState, problems_of_children};
use crate::set::observed::Observed;

/// The condition; `None` if no level of the set shares claims.
pub(super) fn condition(
    observed: &Observed,
    claims: &OwnedClaims<'_>,
    result: &ExecutionResult,
    conflicts: &NameConflicts<'_, PodCliqueSet>,
) -> Option<ConditionUpdate> {
    let Observed { set, children, backed_off, .. } = observed;
    if !shares_claims(&set.spec.template) {
        return None;
    }
    let groups = children.of_kind::<PodCliqueScalingGroup>();
    let groups = groups.filter_map(|group| Some((&**group, group.status.as_ref()?.conditions.as_slice())));
    let cliques = children.of_kind::<PodClique>();
    let cliques = cliques.filter_map(|clique| Some((&**clique, clique.status.as_ref()?.conditions.as_slice())));
    let mut of_children = problems_of_children(groups);
    of_children.extend(problems_of_children(cliques));
    Some(ClaimsState { claims, children, result, backed_off, conflicts, of_children }.condition(set))
}
