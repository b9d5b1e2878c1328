//! How many objects a set implies, counted without making any of them: three numbers below their limits multiply to what no
//! cluster holds.

use std::collections::BTreeMap;

use super::CurrentScale;
use crate::names::{PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};
use kube::ResourceExt;

/// The most objects that a set may imply, its pods among them.
pub const MAX_OBJECTS: u64 = 100_000;

/// A template by what each of its parts counts.
pub struct ObjectCount<'a> {
    /// Cliques of no scaling group.
    alone: Vec<&'a PodCliqueTemplateSpec>,
    groups: Vec<(&'a PodCliqueScalingGroupConfig, u64)>,
}

impl<'a> ObjectCount<'a> {
    /// Of this template.
    pub fn of(template: &'a PodCliqueSetTemplateSpec) -> Self {
        let by_name: BTreeMap<&str, _> = template.cliques.iter().map(|clique| (clique.name.as_str(), clique)).collect();
        let configs = &template.pod_clique_scaling_groups;
        let member = |config: &PodCliqueScalingGroupConfig| {
            let cliques = config.clique_names.iter().filter_map(|name| by_name.get(name.as_str()));
            cliques.fold(0, |sum: u64, clique| sum.saturating_add(count(clique.spec.replicas) + 1))
        };
        let mut members = configs.iter().flat_map(|config| &config.clique_names).collect::<Vec<_>>();
        members.sort_unstable();
        let is_alone = |clique: &&PodCliqueTemplateSpec| members.binary_search(&&clique.name).is_err();
        Self {
            alone: template.cliques.iter().filter(is_alone).collect(),
            groups: configs.iter().map(|config| (config, member(config))).collect(),
        }
    }

    /// Each clique of no group and each group, by its name, with what it counts in one replica of the set.
    pub fn parts(&self) -> impl Iterator<Item = (&'a str, u64)> {
        let alone = self.alone.iter().map(|clique| (clique.name.as_str(), of_clique(clique, clique.spec.replicas)));
        let groups = self
            .groups
            .iter()
            .map(|(config, member)| (config.name.as_str(), of_group(config, config.replicas(), *member)));
        alone.chain(groups)
    }

    /// What one replica of the set counts, as it is created.
    pub fn replica(&self) -> u64 {
        self.sized(|clique| clique.spec.replicas, PodCliqueScalingGroupConfig::replicas)
    }

    /// What the group of this name counts with so many replicas beyond what it counts as it is created.
    pub fn growth(&self, group: &str, replicas: i32) -> u64 {
        let found = self.groups.iter().find(|(config, _)| config.name == group);
        found.map_or(0, |(config, member)| {
            let of = |replicas| of_group(config, replicas, *member);
            of(replicas).saturating_sub(of(config.replicas()))
        })
    }

    fn sized(
        &self,
        clique: impl Fn(&PodCliqueTemplateSpec) -> i32,
        group: impl Fn(&PodCliqueScalingGroupConfig) -> i32,
    ) -> u64 {
        let alone = self.alone.iter().map(|it| of_clique(it, clique(it)));
        let groups = self.groups.iter().map(|(config, member)| of_group(config, group(config), *member));
        // The Service and the base gang.
        alone.chain(groups).fold(2, u64::saturating_add)
    }
}

/// What a set counts as it is created.
pub fn of_template(set: &PodCliqueSet) -> u64 {
    count(set.spec.replicas).saturating_mul(ObjectCount::of(&set.spec.template).replica())
}

/// Whether the set could imply too many objects, if its cliques and groups were all as large as the largest that there is.
/// Nearly always that is answer enough.
pub fn may_be_too_large(set: &PodCliqueSet, largest_clique: i32, largest_group: i32) -> bool {
    let largest = ObjectCount::of(&set.spec.template)
        .sized(|template| template.spec.replicas.max(largest_clique), |config| config.replicas().max(largest_group));
    count(set.spec.replicas).saturating_mul(largest) > MAX_OBJECTS
}

/// Whether the set implies too many objects with the sizes that its cliques and groups have now.
pub fn is_too_large(set: &PodCliqueSet, live: &CurrentScale) -> bool {
    let parts = ObjectCount::of(&set.spec.template);
    let mut sum: u64 = 0;
    (0..set.spec.replicas).any(|index| {
        sum = sum.saturating_add(of_replica(set, &parts, index, live));
        sum > MAX_OBJECTS
    })
}

/// Whether one replica of the set does.
pub fn is_replica_too_large(set: &PodCliqueSet, index: i32, live: &CurrentScale) -> bool {
    of_replica(set, &ObjectCount::of(&set.spec.template), index, live) > MAX_OBJECTS
}

fn of_replica(set: &PodCliqueSet, parts: &ObjectCount<'_>, index: i32, live: &CurrentScale) -> u64 {
    let name = PodCliqueSetName::new(set.name_any());
    parts.sized(
        |template| live.clique(&PodCliqueName::standalone(&name, index, &template.name), template.spec.replicas),
        |config| live.group(&PodCliqueScalingGroupName::of_replica(&name, index, &config.name), config.replicas()),
    )
}

/// A clique, its pods and its autoscaler.
fn of_clique(template: &PodCliqueTemplateSpec, replicas: i32) -> u64 {
    count(replicas) + 1 + u64::from(template.spec.auto_scaling_config.is_some())
}

/// A group, its autoscaler, the cliques and pods of its replicas and the gangs of those beyond `minAvailable`.
fn of_group(config: &PodCliqueScalingGroupConfig, replicas: i32, member: u64) -> u64 {
    let scaled = count(replicas.saturating_sub(config.min_available()));
    let own = scaled + 1 + u64::from(config.scale_config.is_some());
    count(replicas).saturating_mul(member).saturating_add(own)
}

fn count(replicas: i32) -> u64 {
    u64::try_from(replicas).unwrap_or(0)
}
