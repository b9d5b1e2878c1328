//! The topology constraints of a gang, by the keys of node labels.

use std::collections::BTreeMap;

use grove_api_types::expansion::{Clique, Gang, GroupReplica, SetReplica};
use grove_api_types::labels::TOPOLOGY_NAME;
use grove_api_types::pack_constraints::has_equal_required_keys;
use grove_api_types::scheduler_v1alpha1::{
    GangPodGroup, PodGang, PodGangSpec, TopologyConstraint, TopologyConstraintGroupConfig,
};
use grove_api_types::v1alpha1;
use kube::ResourceExt;

use super::observed::{GangConstraints, GangTopologies};

/// The pod groups and the constraints of the desired gang.
pub(crate) fn constrained_spec(topologies: &GangTopologies, replica: &SetReplica, gang: &Gang<'_>) -> PodGangSpec {
    let podgroups = gang_pod_groups(gang);
    let mut desired = PodGang::new(gang.name.as_str(), PodGangSpec { podgroups, ..PodGangSpec::default() });
    set_constraints(&mut desired, topologies, replica, gang);
    desired.spec
}

/// The pod groups of the desired gang, without constraints and pod references.
pub(crate) fn gang_pod_groups(gang: &Gang<'_>) -> Vec<GangPodGroup> {
    let pod_group = |clique: &&Clique| GangPodGroup {
        name: clique.name.to_string(),
        pod_references: Vec::new(),
        min_replicas: clique.min_available,
        topology_constraint: None,
    };
    gang.cliques.iter().map(pod_group).collect()
}

/// Sets the constraints of a desired gang, and the annotation that names their topology. Without a constraint, the gang has no annotation.
/// Only the form of the constraints of the set has changed, from `packDomain` to an equal `pack.required` or the reverse, if the live gang has
/// the same required keys. Then it retains its constraints.
pub(crate) fn set_constraints(
    desired: &mut PodGang,
    topologies: &GangTopologies,
    replica: &SetReplica,
    gang: &Gang<'_>,
) {
    let constraints = match topologies.of_gang(gang.name.as_str()) {
        GangConstraints::None => return,
        GangConstraints::Live(live) => return retain(live, desired),
        GangConstraints::Untranslated => None,
        GangConstraints::Of(constraints) => Some(constraints),
    };
    let translate = |constraint: Option<&v1alpha1::TopologyConstraint>| constraints?.translate(constraint);
    let of_set = replica.revision.template.topology_constraint.as_ref();
    // A scaled gang is a replica of its group.
    let of_group = gang.group.and_then(|group| group.config.topology_constraint.as_ref());
    desired.spec.topology_constraint = translate(of_group.or(of_set));
    for (group, clique) in desired.spec.podgroups.iter_mut().zip(&gang.cliques) {
        group.topology_constraint = translate(clique.template.topology_constraint.as_ref());
    }
    if gang.base.is_none() {
        desired.spec.topology_constraint_group_configs = group_configs(replica, translate);
    }
    if let Some(constraints) = constraints.filter(|_| is_constrained(&desired.spec)) {
        annotate(desired, constraints.topology_name());
    }
    let of_other_form = topologies.of_other_form(gang.name.as_str());
    if let Some(live) = of_other_form.filter(|live| has_equal_required_keys(&live.spec, &desired.spec)) {
        retain(live, desired);
    }
}

/// One config for each replica of a scaling group in the base gang, if the group has a constraint. A domain that the topology lacks leaves
/// a config without a constraint.
fn group_configs(
    replica: &SetReplica,
    translate: impl Fn(Option<&v1alpha1::TopologyConstraint>) -> Option<TopologyConstraint>,
) -> Vec<TopologyConstraintGroupConfig> {
    let constrained = replica.groups.iter().filter(|group| group.config.topology_constraint.is_some());
    let config = |constraint: &Option<v1alpha1::TopologyConstraint>, member: &GroupReplica| {
        let name = |clique: &Clique| clique.name.to_string();
        TopologyConstraintGroupConfig {
            name: member.topology_group.to_string(),
            pod_group_names: member.cliques.iter().map(name).collect(),
            topology_constraint: translate(constraint.as_ref()),
        }
    };
    let configs = constrained.flat_map(|group| {
        let in_base = group.replicas.iter().filter(|member| member.base_gang.is_none());
        in_base.map(|member| config(&group.config.topology_constraint, member))
    });
    configs.collect()
}

fn is_constrained(spec: &PodGangSpec) -> bool {
    let of_groups = spec.podgroups.iter().map(|group| &group.topology_constraint);
    let of_configs = spec.topology_constraint_group_configs.iter().map(|config| &config.topology_constraint);
    of_groups.chain(of_configs).chain([&spec.topology_constraint]).any(Option::is_some)
}

/// Retains the constraints of the live gang. A clique that the live gang lacks has none.
fn retain(live: &PodGang, desired: &mut PodGang) {
    let of_groups: BTreeMap<&str, &Option<TopologyConstraint>> =
        live.spec.podgroups.iter().map(|group| (group.name.as_str(), &group.topology_constraint)).collect();
    for group in &mut desired.spec.podgroups {
        group.topology_constraint = of_groups.get(group.name.as_str()).and_then(|of_live| (*of_live).clone());
    }
    desired.spec.topology_constraint.clone_from(&live.spec.topology_constraint);
    desired.spec.topology_constraint_group_configs.clone_from(&live.spec.topology_constraint_group_configs);
    if let Some(name) = live.annotations().get(TOPOLOGY_NAME) {
        annotate(desired, name);
    }
}

fn annotate(desired: &mut PodGang, topology: &str) {
    desired.annotations_mut().insert(TOPOLOGY_NAME.to_owned(), topology.to_owned());
}
