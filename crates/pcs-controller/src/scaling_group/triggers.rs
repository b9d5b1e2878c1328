//! Predicates and mappers from sets and gangs to the scaling groups that they trigger.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName, PodGangName};
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangSpec};
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// Whether the gang began or ceased to exist, names another `PodGroup`, or has other topology constraints. A gang that is terminating counts
/// as deleted.
pub(super) fn was_created_or_deleted_or_has_other_pod_group(delta: &Delta<PodGang>) -> bool {
    let [old, new] = [&delta.old, &delta.new].map(|gang| gang.as_deref().filter(|gang| !is_terminating(*gang)));
    old.map(of_pod_group) != new.map(of_pod_group)
}

/// What the `PodGroup`, the pod affinity and the turn of cliques follow from.
fn of_pod_group(gang: &PodGang) -> impl PartialEq {
    let annotations = [labels::POD_GROUP, labels::POD_GROUP_SPEC].map(|key| gang.annotations().get(key));
    let PodGangSpec { podgroups, topology_constraint, topology_constraint_group_configs, .. } = &gang.spec;
    let groups: Vec<_> = podgroups.iter().map(|group| (&group.name, &group.topology_constraint)).collect();
    (
        gang.labels().get(labels::GENERATION_HASH),
        annotations,
        groups,
        topology_constraint,
        topology_constraint_group_configs,
    )
}

/// The groups that the set controls.
pub(super) fn groups_of_set(
    groups: &Cache<PodCliqueScalingGroup>,
    delta: &Delta<PodCliqueSet>,
) -> Vec<ObjectRef<PodCliqueScalingGroup>> {
    let Some(set) = delta.object() else { return vec![] };
    let (namespace, uid) = (set.namespace().unwrap_or_default(), set.uid().unwrap_or_default());
    groups.owned_by(&namespace, &uid).iter().map(|group| ObjectRef::from_obj(&**group)).collect()
}

/// The groups with cliques in the gang. They are found by the name of the gang, because the cliques may not exist yet.
pub(super) fn groups_of_gang(
    sets: &Cache<PodCliqueSet>,
    delta: &Delta<PodGang>,
) -> Vec<ObjectRef<PodCliqueScalingGroup>> {
    let Some(gang) = delta.object() else { return Vec::new() };
    let name = PodGangName::new(gang.name_any());
    let namespace = gang.namespace().unwrap_or_default();
    let Some((prefix, index)) = name.split_index() else { return Vec::new() };
    let set = gang.labels().get(labels::PART_OF).filter(|set| *set == prefix);
    let set = set.and_then(|set| sets.get(&namespace, set));
    let of_base_gang = set.iter().flat_map(|set| {
        let set_name = PodCliqueSetName::new(prefix);
        let configs = &set.spec.template.pod_clique_scaling_groups;
        configs.iter().map(move |config| PodCliqueScalingGroupName::of_replica(&set_name, index, &config.name))
    });
    let of_scaled_gang = PodCliqueScalingGroupName::new(prefix);
    of_base_gang.chain([of_scaled_gang]).map(|group| ObjectRef::new(group.as_str()).within(&namespace)).collect()
}
