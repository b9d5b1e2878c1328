//! The condition of a scaling group about claims: its own ones, and those of its cliques that only a user can correct.

use grove_api_types::resource_sharing::of_clique;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::conditions::ConditionUpdate;
use grove_controller::executor::ExecutionResult;

use crate::children::claims_condition::{ClaimsState, problems_of_children};
use crate::scaling_group::observed::{GroupExpansion, Observed};

/// The condition; `None` if neither the group nor a clique of it shares claims.
pub(super) fn condition(
    observed: &Observed,
    expansion: &GroupExpansion<'_>,
    result: &ExecutionResult,
) -> Option<ConditionUpdate> {
    let (Observed { group, children, backed_off, .. }, claims) = (observed, &expansion.claims);
    let is_member = |name: &String| expansion.scaling_group.config.clique_names.contains(name);
    let mut members = expansion.set.spec.template.cliques.iter().filter(|clique| is_member(&clique.name));
    if claims.sources.is_empty() && !members.any(|clique| !of_clique(clique).is_empty()) {
        return None;
    }
    let cliques = children.of_kind::<PodClique>();
    let cliques = cliques.filter_map(|clique| Some((&**clique, clique.status.as_ref()?.conditions.as_slice())));
    let (of_children, base_labels) = (problems_of_children(cliques), observed.base_labels());
    let conflicts = &observed.conflicts(&base_labels);
    Some(ClaimsState { claims, children, result, backed_off, conflicts, of_children }.condition(group))
}
