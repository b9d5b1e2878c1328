//! The scale that clients gave to cliques of the group, in the annotation [`SCALE`] of the group: a deleted clique returns with it. `set`
//! records the scale of the group itself.

use grove_api_types::annotation_value;
use grove_api_types::conditions::available;
use grove_api_types::expansion::{Clique, RecordedScale};
use grove_api_types::labels::SCALE;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::children::ObservedChildren;
use grove_controller::plan::{Stage, Step, Waiting};
use kube::ResourceExt;
use serde_json::json;

use super::observed::{GroupExpansion, Observed};

/// The scale that the group records.
fn of_group(group: &PodCliqueScalingGroup) -> RecordedScale {
    group.annotations().get(SCALE).map(|record| RecordedScale::decode_of_group(record)).unwrap_or_default()
}

/// The recorded scale of the cliques that do not exist.
pub(super) fn of_missing(group: &PodCliqueScalingGroup, children: &ObservedChildren) -> RecordedScale {
    of_group(group).without_cliques(|name| children.get::<PodClique>(name).is_some())
}

/// Why the replicas of missing cliques are unknown: a newer pcs-controller has recorded them.
pub(super) fn unreadable(group: &PodCliqueScalingGroup) -> Option<Waiting> {
    let error = RecordedScale::later_version(group.annotations().get(SCALE)?)?;
    let message = format!(
        "no PodClique is created, because PodCliqueScalingGroup {} records the replicas of deleted ones: {}",
        group.name_any(),
        error.message("pcs-controller")
    );
    Some(Waiting::new(available::UNREADABLE_ANNOTATION, message))
}

/// Patches the annotation, if the scale of a clique has changed.
pub(super) fn stage(observed: &Observed, expansion: &GroupExpansion<'_>) -> Stage {
    let group = &observed.group;
    let live = group.annotations().get(SCALE).map(String::as_str);
    let replicas = |name: &str| observed.children.get::<PodClique>(name).map(|clique| clique.spec.replicas);
    let of_clique = |clique: &Clique| replicas(clique.name.as_str());
    let recorded = RecordedScale::of_group(expansion.scaling_group, of_clique, &of_group(group));
    let desired = recorded.map(|recorded| recorded.encode());
    let is_current = match (live, &desired) {
        (Some(live), Some(desired)) => annotation_value::is_equal(live, desired),
        (live, desired) => live.is_some() == desired.is_some(),
    };
    let is_retained = is_current || unreadable(group).is_some();
    let change = json!({ "metadata": { "annotations": { SCALE: desired } } });
    Stage::new("scale", (!is_retained).then(|| Step::merge_patch(group, change)))
}
