//! The rules of topologies, of both kinds, on creation, on update and on deletion.

use std::collections::BTreeSet;

use kube::Resource;

use super::error_collector::ErrorCollector;
use super::{FieldPath, ReferencingSet, Rule, TopologyFacts, ValidationResult};
use crate::configuration::TopologyDomain;
use crate::deletion::is_terminating;
use crate::scheduler::TopologySupport;
use crate::syntax::{MAX_LABEL_LENGTH, key};
use crate::text::join_names;
use crate::topology::{Level, Topology, join_levels};
use crate::v1alpha1::{ClusterTopology, ClusterTopologyBinding};

/// A message names at most this many sets, and counts the others.
const MAX_NAMED_SETS: usize = 3;
const MAX_LEVELS: usize = 7;

/// Validates a new `ClusterTopology`.
pub fn validate_cluster_topology_create(topology: &ClusterTopology, facts: &TopologyFacts) -> ValidationResult {
    validate_create(topology, facts, validate_levels)
}

/// Validates the update of a `ClusterTopology`.
pub fn validate_cluster_topology_update(
    new: &ClusterTopology,
    old: &ClusterTopology,
    facts: &TopologyFacts,
) -> ValidationResult {
    if new.spec == old.spec { ValidationResult::default() } else { validate_update(new, old, facts, validate_levels) }
}

/// Validates a new `ClusterTopologyBinding`.
pub fn validate_topology_binding_create(binding: &ClusterTopologyBinding, facts: &TopologyFacts) -> ValidationResult {
    validate_create(binding, facts, validate_binding)
}

/// Validates the update of a `ClusterTopologyBinding`.
pub fn validate_topology_binding_update(
    new: &ClusterTopologyBinding,
    old: &ClusterTopologyBinding,
    facts: &TopologyFacts,
) -> ValidationResult {
    if new.spec == old.spec { ValidationResult::default() } else { validate_update(new, old, facts, validate_binding) }
}

/// Validates the deletion of a topology of either kind. Its finalizer would keep a deleted default topology as long as it is the default, and
/// meanwhile every set with constraints would be denied.
pub fn validate_topology_delete(name: &str, facts: &TopologyFacts) -> ValidationResult {
    let mut errors = ErrorCollector::default();
    if facts.topology.enabled && facts.topology.name == name && !facts.is_grove_user {
        let text = "is the default topology of the configuration; before you delete it, set topologyAwareScheduling.name to another \
                    topology, or topologyAwareScheduling.enabled to false, and restart the services";
        errors.forbidden(Rule::TopologyIdentity, &FieldPath::new("metadata.name"), text);
    }
    errors.finish()
}

/// Validates a topology by itself.
type Validator<K> = fn(&K, &TopologyFacts, &mut ErrorCollector);

fn validate_create<'a, K>(topology: &'a K, facts: &TopologyFacts, validate: Validator<K>) -> ValidationResult
where
    K: Resource<DynamicType = ()>,
    Topology: From<&'a K>,
{
    let mut errors = ErrorCollector::default();
    validate(topology, facts, &mut errors);
    let is_binding = K::kind(&()) == ClusterTopologyBinding::kind(&());
    validate_name(&topology.into(), is_binding, facts, &mut errors);
    errors.finish()
}

/// Validates an update that changes the spec.
fn validate_update<'a, K>(new: &'a K, old: &'a K, facts: &TopologyFacts, validate: Validator<K>) -> ValidationResult
where
    K: Resource<DynamicType = ()>,
    Topology: From<&'a K>,
{
    if is_terminating(old) {
        return ValidationResult::default();
    }
    let mut errors = ErrorCollector::for_stored();
    validate(old, facts, &mut errors);
    let mut errors = errors.for_update();
    validate(new, facts, &mut errors);
    let (new, old) = (Topology::from(new), Topology::from(old));
    // Sets use a ClusterTopology, and not the binding of its name, so the binding may get the levels of the ClusterTopology at any time.
    let is_binding = K::kind(&()) == ClusterTopologyBinding::kind(&());
    let is_copy = is_binding && facts.other_kind.as_ref().is_some_and(|topology| topology.levels == new.levels);
    if !is_copy {
        validate_levels_in_use(&new, &old, facts, &mut errors);
    }
    errors.finish()
}

/// Only the default topology exists as both kinds, with the same levels. Grove creates both; a user may create the binding.
fn validate_name(new: &Topology, is_binding: bool, facts: &TopologyFacts, errors: &mut ErrorCollector) {
    let (path, name) = (FieldPath::new("metadata.name"), new.name.as_str());
    let other = facts.other_kind.as_ref();
    if facts.topology.manages(name) {
        let levels = other.map_or_else(|| configured_levels(facts), |topology| topology.levels.clone());
        if !is_binding && !facts.is_grove_user {
            let text = "is the name of the default topology, which Grove creates from its configuration; choose another \
                        name, or change topologyAwareScheduling.levels in the configuration";
            errors.invalid(Rule::TopologyIdentity, &path, name, text);
        } else if new.levels != levels && (other.is_some() || !facts.is_grove_user) {
            let levels = join_levels(&levels);
            let text = format!(
                "is the name of the default topology, which has other levels: {levels}; use these levels, or choose \
                 another name"
            );
            errors.invalid(Rule::TopologyIdentity, &path, name, text);
        }
    } else if other.is_some() {
        let other_kind = if is_binding { ClusterTopology::kind(&()) } else { ClusterTopologyBinding::kind(&()) };
        let text = format!(
            "a {other_kind} has this name, and a set refers to a topology by its name only; choose another name"
        );
        errors.invalid(Rule::TopologyIdentity, &path, name, text);
    }
    if name.len() > MAX_LABEL_LENGTH {
        let text = format!("must be no more than {MAX_LABEL_LENGTH} bytes, because it becomes the value of a label");
        errors.invalid(Rule::TopologyIdentity, &path, name, text);
    }
}

fn configured_levels(facts: &TopologyFacts) -> Vec<Level> {
    facts.topology.levels.iter().map(Level::from).collect()
}

fn validate_levels(topology: &ClusterTopology, _: &TopologyFacts, errors: &mut ErrorCollector) {
    let levels: Vec<Level> = topology.spec.levels.iter().map(Level::from).collect();
    validate_unique_levels(&levels, errors);
    let path = FieldPath::new("spec.levels");
    match levels.len() {
        0 => errors.required(Rule::Levels, &path, "must contain at least one level"),
        1..=MAX_LEVELS => {}
        count => errors.invalid(Rule::Levels, &path, count, format!("must have at most {MAX_LEVELS} items")),
    }
    for (at, level) in levels.iter().enumerate() {
        let path = path.item(at, &level.domain);
        if !TopologyDomain::ALL.iter().any(|(name, _)| *name == level.domain) {
            let known: Vec<_> = TopologyDomain::ALL.iter().map(|(name, _)| format!("{name:?}")).collect();
            let supported = format!("supported values: {}", known.join(", "));
            errors.not_supported(Rule::LevelSyntax, &path.field("domain"), level.domain.as_str(), &supported);
        }
        if let Err(error) = key(&level.key) {
            errors.invalid(Rule::LevelSyntax, &path.field("key"), level.key.as_str(), error);
        }
    }
}

fn validate_binding(binding: &ClusterTopologyBinding, facts: &TopologyFacts, errors: &mut ErrorCollector) {
    let levels: Vec<Level> = binding.spec.levels.iter().map(Level::from).collect();
    validate_unique_levels(&levels, errors);
    if levels.is_empty() {
        errors.required(Rule::Levels, &FieldPath::new("spec.levels"), "must contain at least one level");
    }
    let path = FieldPath::new("spec.schedulerTopologyBindings");
    let mut seen = BTreeSet::new();
    for (at, reference) in binding.spec.scheduler_topology_bindings.iter().enumerate() {
        let name = reference.scheduler_name.as_str();
        let path = path.item(at, name).field("schedulerName");
        if !seen.insert(name) {
            errors.duplicate(Rule::SchedulerBinding, &path, name);
        }
        let scheduler = facts.schedulers.profiles.iter().find(|profile| profile.name.name() == name);
        match scheduler.map(|profile| profile.name) {
            Some(scheduler) if matches!(scheduler.topology_support(), TopologySupport::Supported) => {}
            None => errors.invalid(Rule::SchedulerBinding, &path, name, "scheduler backend is not enabled in Grove"),
            Some(_) => {
                let text = "scheduler backend does not implement topology-aware scheduling";
                errors.invalid(Rule::SchedulerBinding, &path, name, text);
            }
        }
    }
}

fn validate_unique_levels(levels: &[Level], errors: &mut ErrorCollector) {
    let (mut domains, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for (at, level) in levels.iter().enumerate() {
        let path = FieldPath::new("spec.levels").item(at, &level.domain);
        if !domains.insert(&level.domain) {
            errors.duplicate(Rule::LevelUnique, &path.field("domain"), level.domain.as_str());
        }
        if !keys.insert(&level.key) {
            errors.duplicate(Rule::LevelUnique, &path.field("key"), level.key.as_str());
        }
    }
}

/// Denies a change of the levels while pods are scheduled by them, and the removal of a domain that a set uses. While topology-aware
/// scheduling is disabled, no gang has constraints, so the keys may change.
fn validate_levels_in_use(new: &Topology, old: &Topology, facts: &TopologyFacts, errors: &mut ErrorCollector) {
    let TopologyFacts { topology, referencing_sets, .. } = facts;
    if new.levels == old.levels || (!topology.enabled && new.domains() == old.domains()) {
        return;
    }
    let path = FieldPath::new("spec.levels");
    let scheduled: Vec<_> = referencing_sets.iter().filter(|set| set.is_scheduled).collect();
    if !scheduled.is_empty() {
        let sets = names_of(&scheduled);
        let text = format!(
            "cannot be changed while PodCliqueSets with scheduled pods refer to the topology: {sets}. Create another \
             topology, or delete those sets first"
        );
        errors.forbidden(Rule::LevelsInUse, &path, text);
    }
    let remaining: BTreeSet<&str> = new.domains().into_iter().collect();
    for domain in old.domains().into_iter().filter(|domain| !remaining.contains(domain)) {
        let users: Vec<_> = referencing_sets.iter().filter(|set| set.domains.contains(domain)).collect();
        if !users.is_empty() {
            let text = format!("domain {domain:?} cannot be removed, PodCliqueSets use it: {}", names_of(&users));
            errors.forbidden(Rule::LevelsInUse, &path, text);
        }
    }
}

fn names_of(sets: &[&ReferencingSet]) -> String {
    let names: Vec<_> = sets.iter().map(|referencing_set| referencing_set.set.as_str()).collect();
    join_names(&names, MAX_NAMED_SETS)
}
