//! The rules of a `PodCliqueSet`, on creation and on update.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::default::OldItems;
use super::error_collector::ErrorCollector;
use super::{Facts, FieldPath, ValidationResult, default};
use crate::deletion::is_terminating;
use crate::labels::{AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME};
use crate::scheduler::queue_keys;
use crate::topology::{resolve_topology_name, resolve_topology_name_on_create, resolve_topology_name_on_update};
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};

mod claims;
mod cliques;
mod dependency_count;
mod groups;
mod metadata;
mod mnnvl;
mod name_collisions;
mod names;
mod object_count;
mod pods;
mod rolling_update;
mod scaling;
mod schedulers;
mod sharing;
mod startup;
mod topology;
mod update;

/// The labels and annotations of a set that the rules read.
pub fn validated_keys() -> impl Iterator<Item = &'static str> {
    [AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME].into_iter().chain(queue_keys())
}

/// Validates a new set, also one with a deletion time: the API server stores the deletion time of a server-side apply that creates an object.
pub fn validate_create(set: &PodCliqueSet, facts: &Facts) -> ValidationResult {
    let set = default::pod_clique_set(set);
    let topology_name = resolve_topology_name_on_create(&set, &facts.topology.name);
    let context = ValidationContext::new(&set, facts, topology_name);
    let mut errors = ErrorCollector::default();
    context.check(&mut errors);
    cliques::check_create(&context, &mut errors);
    pods::check_create(&context, &mut errors);
    mnnvl::check_create(&context, &mut errors);
    errors.finish()
}

/// Validates the update of a set. The function accepts terminating sets and updates that change no validated field. It ignores
/// the errors that the old set has too (ratcheting), so that they do not block the change of another field.
pub fn validate_update(new: &PodCliqueSet, old: &PodCliqueSet, facts: &Facts) -> ValidationResult {
    if is_terminating(old) {
        return ValidationResult::default();
    }
    let (new, old) = (default::pod_clique_set_on_update(new, old), default::pod_clique_set(old));
    if new.spec == old.spec && validated_keys().all(|key| is_unchanged(&new, &old, key)) {
        return ValidationResult::default();
    }
    let default = &facts.topology.name;
    let mut stored = ErrorCollector::for_stored();
    ValidationContext::new(&old, facts, resolve_topology_name(&old, default)).check(&mut stored);
    let context = ValidationContext::new(&new, facts, resolve_topology_name_on_update(&new, &old, default));
    let mut errors = stored.for_update();
    context.check(&mut errors);
    pods::check_update(&context, &old, &mut errors);
    update::check(&context, &old, &mut errors);
    mnnvl::check_update(&context, &old, &mut errors);
    topology::check_update(&context, &old, &mut errors);
    errors.finish()
}

/// The warnings about a set that does not change.
pub(super) fn warnings(set: &PodCliqueSet, facts: &Facts) -> Vec<String> {
    let set = default::pod_clique_set(set);
    let mut errors = ErrorCollector::default();
    ValidationContext::new(&set, facts, resolve_topology_name(&set, &facts.topology.name)).check(&mut errors);
    errors.finish().warnings
}

fn is_unchanged(new: &PodCliqueSet, old: &PodCliqueSet, key: &str) -> bool {
    new.labels().get(key) == old.labels().get(key) && new.annotations().get(key) == old.annotations().get(key)
}

/// A set with its defaults, the facts about the cluster, and indices of the cliques and groups.
struct ValidationContext<'a> {
    set: &'a PodCliqueSet,
    facts: &'a Facts,
    /// The name of the topology that the set refers to.
    topology_name: Option<&'a str>,
    /// The first clique of each name.
    by_name: BTreeMap<&'a str, &'a PodCliqueTemplateSpec>,
    /// The first scaling group of each clique, by the name of the clique.
    by_member: BTreeMap<&'a str, &'a PodCliqueScalingGroupConfig>,
}

impl<'a> ValidationContext<'a> {
    fn new(set: &'a PodCliqueSet, facts: &'a Facts, topology_name: Option<&'a str>) -> Self {
        let template = &set.spec.template;
        let (mut by_name, mut by_member) = (BTreeMap::new(), BTreeMap::new());
        for clique in &template.cliques {
            by_name.entry(clique.name.as_str()).or_insert(clique);
        }
        for group in &template.pod_clique_scaling_groups {
            for name in &group.clique_names {
                by_member.entry(name.as_str()).or_insert(group);
            }
        }
        Self { set, facts, topology_name, by_name, by_member }
    }

    /// The rules for new and for updated sets.
    fn check(&self, errors: &mut ErrorCollector) {
        names::check(self, errors);
        object_count::check(self, errors);
        cliques::check(self, errors);
        startup::check(self, errors);
        pods::check(self, errors);
        groups::check(self, errors);
        scaling::check(self, errors);
        sharing::check(self, errors);
        claims::check(self, errors);
        topology::check(self, errors);
        mnnvl::check(self, errors);
        schedulers::check(self, errors);
        rolling_update::check(self, errors);
    }

    fn template(&self) -> &'a PodCliqueSetTemplateSpec {
        &self.set.spec.template
    }

    fn cliques(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueTemplateSpec)> {
        let path = template_path().field("cliques");
        self.template().cliques.iter().enumerate().map(move |(at, clique)| (path.item(at, &clique.name), clique))
    }

    fn groups(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueScalingGroupConfig)> {
        let path = template_path().field("podCliqueScalingGroups");
        let groups = self.template().pod_clique_scaling_groups.iter().enumerate();
        groups.map(move |(at, group)| (path.item(at, &group.name), group))
    }

    /// The cliques, each with its old version.
    fn cliques_with_old(
        &self,
        old: &'a [PodCliqueTemplateSpec],
    ) -> impl Iterator<Item = (FieldPath, &'a PodCliqueTemplateSpec, Option<&'a PodCliqueTemplateSpec>)> {
        let stored = OldItems::new(old, |clique| &clique.name);
        self.cliques().enumerate().map(move |(at, (path, clique))| (path, clique, stored.get(at, &clique.name)))
    }

    /// The scaling groups, each with its old version.
    fn groups_with_old(
        &self,
        old: &'a [PodCliqueScalingGroupConfig],
    ) -> impl Iterator<Item = (FieldPath, &'a PodCliqueScalingGroupConfig, Option<&'a PodCliqueScalingGroupConfig>)>
    {
        let stored = OldItems::new(old, |group| &group.name);
        self.groups().enumerate().map(move |(at, (path, group))| (path, group, stored.get(at, &group.name)))
    }

    fn clique(&self, name: &str) -> Option<&'a PodCliqueTemplateSpec> {
        self.by_name.get(name).copied()
    }

    fn group_of(&self, clique: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
        self.by_member.get(clique).copied()
    }

    /// `namespace/name`
    fn full_name(&self) -> String {
        let namespace = self.set.namespace().unwrap_or_else(|| "default".to_owned());
        [namespace, self.set.name_any()].join("/")
    }
}

fn template_path() -> FieldPath {
    FieldPath::new("spec.template")
}
