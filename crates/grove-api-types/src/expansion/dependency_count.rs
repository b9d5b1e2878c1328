//! The number of startup dependencies of a set, without the expansion. In a base gang, each clique of a scaling group can wait for the
//! cliques of all its replicas, so the number is quadratic in `minAvailable`.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::CurrentScale;
use super::template_index::{Parents, TemplateIndex};
use crate::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use crate::v1alpha1::{
    CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

/// The largest number of startup dependencies of a `PodClique`. The name of a dependency has at most 63 characters, so they need at most
/// 132 kB of the 1.5 MB that the API server stores of a `PodClique`.
pub const MAX_DEPENDENCIES_OF_CLIQUE: u64 = 2_000;

/// The largest number of startup dependencies of all `PodClique`s of a set. They need at most 33 MB of the storage of the API server. A
/// scaling group of two cliques can have 700 replicas in a base gang.
pub const MAX_DEPENDENCIES: u64 = 500_000;

/// The number of startup dependencies of several cliques.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DependencyCount {
    /// The largest number of one clique.
    pub largest: u64,
    /// The number of all cliques of base gangs.
    pub in_base_gangs: u64,
    /// The number of all cliques of scaled gangs.
    pub in_scaled_gangs: u64,
}

impl DependencyCount {
    /// The number of all cliques.
    pub fn total(self) -> u64 {
        self.in_base_gangs.saturating_add(self.in_scaled_gangs)
    }

    /// Whether a clique, or all cliques together, have more dependencies than they may have.
    pub fn is_too_large(self) -> bool {
        self.largest > MAX_DEPENDENCIES_OF_CLIQUE || self.total() > MAX_DEPENDENCIES
    }

    /// The number of this many equal replicas.
    fn times(self, replicas: u64) -> Self {
        Self {
            largest: if replicas > 0 { self.largest } else { 0 },
            in_base_gangs: self.in_base_gangs.saturating_mul(replicas),
            in_scaled_gangs: self.in_scaled_gangs.saturating_mul(replicas),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            largest: self.largest.max(other.largest),
            in_base_gangs: self.in_base_gangs.saturating_add(other.in_base_gangs),
            in_scaled_gangs: self.in_scaled_gangs.saturating_add(other.in_scaled_gangs),
        }
    }

    fn of_base_gang(dependencies: u64, cliques: u64) -> Self {
        Self { largest: dependencies, in_base_gangs: dependencies, in_scaled_gangs: 0 }.times(cliques)
    }

    fn of_scaled_gangs(dependencies: u64, cliques: u64) -> Self {
        Self { largest: dependencies, in_base_gangs: 0, in_scaled_gangs: dependencies }.times(cliques)
    }
}

/// The dependencies of one replica of a set, with the initial scale.
pub fn of_replica(template: &PodCliqueSetTemplateSpec) -> DependencyCount {
    sized(&TemplateIndex::of(template), PodCliqueScalingGroupConfig::replicas)
}

/// The dependencies of a set, with the initial scale.
pub fn of_template(set: &PodCliqueSet) -> DependencyCount {
    of_replica(&set.spec.template).times(count(set.spec.replicas))
}

/// The number of additional dependencies if the scaling group has this number of replicas instead of the initial one.
pub fn growth(template: &PodCliqueSetTemplateSpec, group: &str, replicas: i32) -> u64 {
    let index = TemplateIndex::of(template);
    let scaled = sized(&index, |config| if config.name == group { replicas } else { config.replicas() });
    scaled.total().saturating_sub(sized(&index, PodCliqueScalingGroupConfig::replicas).total())
}

/// A cheap upper bound of [`is_too_large`]: whether the set would have too many dependencies if all its scaling groups were as large as
/// the largest existing one. For most sets this is false, and no exact count is needed.
pub fn may_be_too_large(set: &PodCliqueSet, largest_group: i32) -> bool {
    if has_no_dependencies(set) {
        return false;
    }
    let largest = sized(&TemplateIndex::of(&set.spec.template), |config| config.replicas().max(largest_group));
    largest.times(count(set.spec.replicas)).is_too_large()
}

/// Whether the cliques of the set have too many dependencies with the current scale of its scaling groups.
pub fn is_too_large(set: &PodCliqueSet, live: &CurrentScale) -> bool {
    if has_no_dependencies(set) {
        return false;
    }
    let index = TemplateIndex::of(&set.spec.template);
    let mut sum = DependencyCount::default();
    (0..set.spec.replicas).any(|replica| {
        sum = sum.plus(current(set, &index, replica, live));
        sum.is_too_large()
    })
}

/// The dependencies of one replica of a set, with the current scale of its scaling groups.
pub fn of_current_replica(set: &PodCliqueSet, replica: i32, live: &CurrentScale) -> DependencyCount {
    if has_no_dependencies(set) {
        return DependencyCount::default();
    }
    current(set, &TemplateIndex::of(&set.spec.template), replica, live)
}

fn has_no_dependencies(set: &PodCliqueSet) -> bool {
    set.spec.template.clique_startup_type == CliqueStartupType::AnyOrder
}

fn current(set: &PodCliqueSet, index: &TemplateIndex<'_>, replica: i32, live: &CurrentScale) -> DependencyCount {
    let name = PodCliqueSetName::new(set.name_any());
    let replicas = |config: &PodCliqueScalingGroupConfig| {
        live.group(&PodCliqueScalingGroupName::of_replica(&name, replica, &config.name), config.replicas())
    };
    sized(index, replicas)
}

/// The dependencies of one replica of a set. `replicas` is the number of replicas of a scaling group.
fn sized(index: &TemplateIndex<'_>, replicas: impl Fn(&PodCliqueScalingGroupConfig) -> i32) -> DependencyCount {
    let base_replicas = |config: &PodCliqueScalingGroupConfig| count(config.min_available().min(replicas(config)));
    let by_group = index.groups().map(|config| (config.name.as_str(), base_replicas(config))).collect();
    let by_clique = in_base_gang(index, &by_group);
    let of = |clique: &PodCliqueTemplateSpec| by_clique.get(clique.name.as_str()).copied().unwrap_or(0);
    let mut sum = DependencyCount::default();
    for clique in index.standalone_cliques() {
        sum = sum.plus(DependencyCount::of_base_gang(of(clique), 1));
    }
    for config in index.groups() {
        let in_base_gang = base_replicas(config);
        let scaled = count(replicas(config)).saturating_sub(in_base_gang);
        for clique in index.members(config) {
            let in_group = length(index.parents_in_group(&clique.name, &config.name).len());
            sum = sum.plus(DependencyCount::of_base_gang(of(clique), in_base_gang));
            sum = sum.plus(DependencyCount::of_scaled_gangs(in_group, scaled));
        }
    }
    sum
}

/// The number of dependencies in the base gang of each clique with parents. `replicas` are those of each scaling group in the base gang.
/// It reads each parent of the template once.
fn in_base_gang<'a>(index: &TemplateIndex<'a>, replicas: &BTreeMap<&'a str, u64>) -> BTreeMap<&'a str, u64> {
    let of_parents = |parents: &Parents<'a>| {
        parents.by_group.iter().fold(length(parents.standalone), |sum, (group, members)| {
            let replicas = replicas.get(group).copied().unwrap_or(0);
            sum.saturating_add(length(members.len()).saturating_mul(replicas))
        })
    };
    index.with_parents().iter().map(|(clique, parents)| (*clique, of_parents(parents))).collect()
}

fn count(replicas: i32) -> u64 {
    u64::try_from(replicas).unwrap_or(0)
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
