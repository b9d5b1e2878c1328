//! The number of objects that a set expands to, without the expansion: replicas that are all below their limits can multiply to
//! more objects than a cluster can store. `admission/validate/object_count.rs` denies sets above the limits of this file.

use std::collections::{BTreeMap, BTreeSet};

use super::CurrentScale;
use crate::names::{PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};
use crate::resource_sharing::{self, SharedClaim};
use crate::v1alpha1::{
    PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec, ResourceSharingScope,
};
use kube::ResourceExt;

/// The largest number of objects that a set may expand to, pods included.
pub const MAX_OBJECTS: u64 = 100_000;

/// The largest size of a gang: the number of its pods and of its pod groups. The `PodGang` has a reference to each pod and an entry for
/// each pod group, and the API server stores no object of more than 1.5 MB. The namespace and the name of a pod have at most 63
/// characters each, so a reference needs at most 155 bytes. A pod group needs fewer bytes without its references.
///
/// `admission/validate/object_count.rs` checks sets, and `admission/scale.rs` checks scale requests. No controller rejects a larger gang:
/// `gang_pods.rs` of pclq-controller omits references.
pub const MAX_GANG_SIZE: usize = 8_000;

/// Whether a gang of this size is larger than [`MAX_GANG_SIZE`].
pub fn is_gang_too_large(size: u64) -> bool {
    usize::try_from(size).map_or(true, |size| size > MAX_GANG_SIZE)
}

/// The part of the size of a gang that a clique with this number of replicas has: its pods and its pod group.
pub fn clique_size(replicas: i32) -> u64 {
    count(replicas) + 1
}

/// Counts the objects of a template by its parts.
pub struct ObjectCount<'a> {
    /// The standalone cliques.
    standalone: Vec<&'a PodCliqueTemplateSpec>,
    /// The scaling groups, each with the number of objects of one replica.
    groups: Vec<(&'a PodCliqueScalingGroupConfig, u64)>,
    /// The claims of the set.
    claims: ClaimCount,
}

/// The number of claims that one object shares.
#[derive(Clone, Copy, Debug, Default)]
struct ClaimCount {
    /// The claims that all replicas share.
    all: u64,
    /// The claims of each replica.
    per_replica: u64,
}

impl ClaimCount {
    fn of(shares: Vec<SharedClaim<'_>>) -> Self {
        shares.into_iter().fold(Self::default(), |Self { all, per_replica }, share| match share.scope {
            ResourceSharingScope::AllReplicas => Self { all: all + 1, per_replica },
            ResourceSharingScope::PerReplica => Self { all, per_replica: per_replica + 1 },
        })
    }

    fn with(self, replicas: i32) -> u64 {
        count(replicas).saturating_mul(self.per_replica).saturating_add(self.all)
    }
}

impl<'a> ObjectCount<'a> {
    /// The counts of this template.
    pub fn of(template: &'a PodCliqueSetTemplateSpec) -> Self {
        let by_name: BTreeMap<&str, _> = template.cliques.iter().map(|clique| (clique.name.as_str(), clique)).collect();
        let configs = &template.pod_clique_scaling_groups;
        let per_replica = |config: &PodCliqueScalingGroupConfig| {
            let cliques = config.clique_names.iter().filter_map(|name| by_name.get(name.as_str()));
            let claims = ClaimCount::of(resource_sharing::of_group(config)).per_replica;
            let of_member = |clique: &PodCliqueTemplateSpec| {
                let claims = ClaimCount::of(resource_sharing::of_clique(clique)).with(clique.spec.replicas);
                claims.saturating_add(count(clique.spec.replicas) + 1)
            };
            cliques.fold(claims, |sum: u64, clique| sum.saturating_add(of_member(clique)))
        };
        let mut members = configs.iter().flat_map(|config| &config.clique_names).collect::<Vec<_>>();
        members.sort_unstable();
        let is_standalone = |clique: &&PodCliqueTemplateSpec| members.binary_search(&&clique.name).is_err();
        Self {
            standalone: template.cliques.iter().filter(is_standalone).collect(),
            groups: configs.iter().map(|config| (config, per_replica(config))).collect(),
            claims: ClaimCount::of(resource_sharing::of_set(template)),
        }
    }

    /// Each standalone clique and each scaling group, with its number of objects in one replica of the set.
    pub fn parts(&self) -> impl Iterator<Item = (&'a str, u64)> {
        let standalone =
            self.standalone.iter().map(|clique| (clique.name.as_str(), of_clique(clique, clique.spec.replicas)));
        let groups = self
            .groups
            .iter()
            .map(|(config, per_replica)| (config.name.as_str(), of_group(config, config.replicas(), *per_replica)));
        standalone.chain(groups)
    }

    /// The number of objects of one replica, with the initial scale.
    pub fn replica(&self) -> u64 {
        self.sized(|clique| clique.spec.replicas, PodCliqueScalingGroupConfig::replicas)
    }

    /// The number of additional objects if the scaling group has this number of replicas instead of the initial one.
    pub fn growth(&self, group: &str, replicas: i32) -> u64 {
        let found = self.groups.iter().find(|(config, _)| config.name == group);
        found.map_or(0, |(config, per_replica)| {
            let of = |replicas| of_group(config, replicas, *per_replica);
            of(replicas).saturating_sub(of(config.replicas()))
        })
    }

    fn sized(
        &self,
        clique: impl Fn(&PodCliqueTemplateSpec) -> i32,
        group: impl Fn(&PodCliqueScalingGroupConfig) -> i32,
    ) -> u64 {
        let standalone = self.standalone.iter().map(|it| of_clique(it, clique(it)));
        let groups = self.groups.iter().map(|(config, per_replica)| of_group(config, group(config), *per_replica));
        // The Service, the base gang, and the claims of the replica.
        standalone.chain(groups).fold(2 + self.claims.per_replica, u64::saturating_add)
    }
}

/// The size of each base gang, with the initial scale: the standalone cliques, and the first `minAvailable` replicas of each scaling
/// group. A scaled gang has one replica of one scaling group, so it is not larger.
pub fn base_gang_size(template: &PodCliqueSetTemplateSpec) -> u64 {
    let mut standalone: BTreeMap<&str, u64> =
        template.cliques.iter().map(|clique| (clique.name.as_str(), clique_size(clique.spec.replicas))).collect();
    let by_name = standalone.clone();
    let mut size: u64 = 0;
    for config in &template.pod_clique_scaling_groups {
        let members = config.clique_names.iter().filter_map(|name| by_name.get(name.as_str()));
        let of_replica = members.fold(0, |sum: u64, member| sum.saturating_add(*member));
        size = size.saturating_add(count(config.min_available()).saturating_mul(of_replica));
        for name in &config.clique_names {
            standalone.remove(name.as_str());
        }
    }
    standalone.into_values().fold(size, u64::saturating_add)
}

/// The size of each scaled gang of this scaling group, with the initial scale: one replica of it.
pub fn scaled_gang_size(template: &PodCliqueSetTemplateSpec, config: &PodCliqueScalingGroupConfig) -> u64 {
    let members: BTreeSet<&str> = config.clique_names.iter().map(String::as_str).collect();
    let members = template.cliques.iter().filter(|clique| members.contains(clique.name.as_str()));
    members.fold(0, |size: u64, clique| size.saturating_add(clique_size(clique.spec.replicas)))
}

/// The number of objects of a set, with the initial scale.
pub fn of_template(set: &PodCliqueSet) -> u64 {
    let objects = ObjectCount::of(&set.spec.template);
    count(set.spec.replicas).saturating_mul(objects.replica()).saturating_add(objects.claims.all)
}

/// A cheap upper bound of [`is_too_large`]: whether the set would have too many objects if all its cliques and groups were as
/// large as the largest existing ones. For most sets this is false, and no exact count is needed.
pub fn may_be_too_large(set: &PodCliqueSet, largest_clique: i32, largest_group: i32) -> bool {
    let objects = ObjectCount::of(&set.spec.template);
    let largest = objects
        .sized(|template| template.spec.replicas.max(largest_clique), |config| config.replicas().max(largest_group));
    count(set.spec.replicas).saturating_mul(largest).saturating_add(objects.claims.all) > MAX_OBJECTS
}

/// Whether the set expands to too many objects with the current scale of its cliques and groups.
pub fn is_too_large(set: &PodCliqueSet, live: &CurrentScale) -> bool {
    let parts = ObjectCount::of(&set.spec.template);
    let mut sum = parts.claims.all;
    (0..set.spec.replicas).any(|index| {
        sum = sum.saturating_add(of_replica(set, &parts, index, live));
        sum > MAX_OBJECTS
    })
}

/// Whether one replica of the set expands to too many objects.
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

/// The number of objects that the clique of this template gets in addition to those of the template, if it has this number of replicas.
pub fn growth_of_clique(template: &PodCliqueTemplateSpec, replicas: i32) -> u64 {
    of_clique(template, replicas).saturating_sub(of_clique(template, template.spec.replicas))
}

/// The number of objects of a clique: the `PodClique`, its pods, its claims and its autoscaler.
fn of_clique(template: &PodCliqueTemplateSpec, replicas: i32) -> u64 {
    let claims = ClaimCount::of(resource_sharing::of_clique(template)).with(replicas);
    claims.saturating_add(count(replicas) + 1 + u64::from(template.spec.auto_scaling_config.is_some()))
}

/// The number of objects of a group: the `PodCliqueScalingGroup`, its claims, its autoscaler, the cliques and pods of its replicas, and
/// its scaled gangs.
fn of_group(config: &PodCliqueScalingGroupConfig, replicas: i32, per_replica: u64) -> u64 {
    let scaled = count(replicas.saturating_sub(config.min_available()));
    let claims = ClaimCount::of(resource_sharing::of_group(config)).all;
    let own = scaled + 1 + u64::from(config.scale_config.is_some()) + claims;
    count(replicas).saturating_mul(per_replica).saturating_add(own)
}

fn count(replicas: i32) -> u64 {
    u64::try_from(replicas).unwrap_or(0)
}
