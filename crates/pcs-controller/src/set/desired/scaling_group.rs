//! The `PodCliqueScalingGroup` of one group in one replica.

use grove_api_types::events;
use grove_api_types::expansion::{ScalingGroup, SetReplica};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueScalingGroupSpec, PodCliqueSet};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::caches::Delta;
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::ResourceExt;

use crate::children::desired;
use crate::children::drift::{difference, patch, retain_keys};
use crate::set::observed::{SetExpansion, SetOwner};
use crate::update;

/// The scaling groups of all replicas.
pub(crate) struct ScalingGroups;

impl ChildKind for ScalingGroups {
    type Owner = SetOwner;
    type Object = PodCliqueScalingGroup;

    const STAGE: &'static str = "groups";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::POD_CLIQUE_SCALING_GROUP_CREATE_SUCCESSFUL),
        create_or_update_failed: events::POD_CLIQUE_SCALING_GROUP_CREATE_OR_UPDATE_FAILED,
        deleted: Some((
            events::POD_CLIQUE_SCALING_GROUP_DELETE_SUCCESSFUL,
            events::POD_CLIQUE_SCALING_GROUP_DELETE_FAILED,
        )),
    };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create, patch and delete the scaling groups of each replica";
        vec![PolicyRule::for_resource::<PodCliqueScalingGroup>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> PodCliqueScalingGroup>> {
        expansion.replicas.iter().flat_map(move |replica| {
            replica.groups.iter().map(move |group| {
                let build = move || scaling_group(expansion.set, replica, group);
                let desired = DesiredChild::new(group.name.as_str(), build).in_failure_domain(replica.index);
                let desired = expansion.turns.apply_to(replica.index, desired);
                match expansion.awaited_domains.waiting(replica.index) {
                    Some(waiting) => desired.blocked_by(|| waiting),
                    None => desired,
                }
            })
        })
    }

    /// `replicas` is only set at the creation; afterwards it belongs to autoscalers and users. The reconciler of the group records the scale of
    /// its cliques.
    fn patch(live: &PodCliqueScalingGroup, mut desired: PodCliqueScalingGroup) -> Option<Step> {
        desired.spec.replicas = live.spec.replicas;
        retain_keys(live.annotations(), desired.annotations_mut(), |key| key == labels::SCALE);
        patch(live, &desired, difference(live, &desired, |group| &group.spec))
    }

    fn needs_reconcile(delta: &Delta<Self::Object>) -> bool {
        update::child_needs_reconcile(delta, PodCliqueScalingGroup::is_updating)
    }
}

/// The desired group. `spec.replicas` applies only to its creation.
fn scaling_group(set: &PodCliqueSet, replica: &SetReplica, group: &ScalingGroup) -> PodCliqueScalingGroup {
    let (name, index) = (group.name.as_str(), replica.index.to_string());
    let own = [(labels::NAME, name), (labels::SET_REPLICA, index.as_str())];
    let labels = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::ScalingGroup, own);
    let mut annotations = group.config.annotations.clone();
    annotations.remove(labels::SCALE);
    if let Some(mnnvl) = set.annotations().get(labels::MNNVL_GROUP) {
        annotations.entry(labels::MNNVL_GROUP.to_owned()).or_insert_with(|| mnnvl.clone());
    }
    // Only the set has the choice.
    match set.annotations().get(labels::AUTO_MNNVL) {
        Some(choice) => annotations.insert(labels::AUTO_MNNVL.to_owned(), choice.clone()),
        None => annotations.remove(labels::AUTO_MNNVL),
    };
    annotations.insert(labels::GENERATION_HASH.to_owned(), replica.revision.hashes().generation_hash.clone());
    let mut metadata = desired::metadata(set, name, labels);
    metadata.annotations = Some(annotations);
    let spec = PodCliqueScalingGroupSpec {
        replicas: group.replica_count,
        min_available: Some(group.config.min_available()),
        clique_names: group.config.clique_names.clone(),
    };
    PodCliqueScalingGroup { metadata, spec, status: None }
}
