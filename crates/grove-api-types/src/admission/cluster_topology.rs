//! The rules of topologies, of either kind, on creation and on update.

use std::collections::BTreeSet;

use kube::{Resource, ResourceExt};

use super::findings::Findings;
use super::{FieldPath, Referring, Rule, TopologyFacts, Verdict};
use crate::configuration::TopologyDomain;
use crate::deletion::is_terminating;
use crate::scheduler::Scheduler;
use crate::syntax::{LONGEST_LABEL, key};
use crate::topology::{Level, Topology};
use crate::v1alpha1::{ClusterTopology, ClusterTopologyBinding};

/// As many sets are named in a message; the others are counted.
const NAMED: usize = 3;
const MOST_LEVELS: usize = 7;

/// Judges a `ClusterTopology` that is created.
pub fn validate_cluster_topology_create(topology: &ClusterTopology, facts: &TopologyFacts) -> Verdict {
    created(topology, facts, "ClusterTopologyBinding", of_topology)
}

/// Judges what a `ClusterTopology` is changed to.
pub fn validate_cluster_topology_update(
    new: &ClusterTopology,
    old: &ClusterTopology,
    facts: &TopologyFacts,
) -> Verdict {
    if new.spec == old.spec { Verdict::default() } else { updated(new, old, facts, of_topology) }
}

/// Judges a `ClusterTopologyBinding` that is created.
pub fn validate_topology_binding_create(binding: &ClusterTopologyBinding, facts: &TopologyFacts) -> Verdict {
    created(binding, facts, "ClusterTopology", of_binding)
}

/// Judges what a `ClusterTopologyBinding` is changed to.
pub fn validate_topology_binding_update(
    new: &ClusterTopologyBinding,
    old: &ClusterTopologyBinding,
    facts: &TopologyFacts,
) -> Verdict {
    if new.spec == old.spec { Verdict::default() } else { updated(new, old, facts, of_binding) }
}

/// What of a topology has to do with itself alone.
type Judge<K> = fn(&K, &TopologyFacts, &mut Findings);

fn created<K: Resource>(topology: &K, facts: &TopologyFacts, other_kind: &str, judge: Judge<K>) -> Verdict {
    let mut found = Findings::default();
    judge(topology, facts, &mut found);
    identity(&topology.name_any(), (other_kind, facts), &mut found);
    found.verdict()
}

/// The spec has changed.
fn updated<'a, K: Resource>(new: &'a K, old: &'a K, facts: &TopologyFacts, judge: Judge<K>) -> Verdict
where
    Topology: From<&'a K>,
{
    if is_terminating(new) {
        return Verdict::default();
    }
    let mut found = Findings::of_stored();
    judge(old, facts, &mut found);
    let mut found = found.of_change();
    judge(new, facts, &mut found);
    in_use(&new.into(), &old.into(), &facts.referring, &mut found);
    found.verdict()
}

fn identity(name: &str, (other_kind, facts): (&str, &TopologyFacts), found: &mut Findings) {
    let path = FieldPath::new("metadata.name");
    if facts.is_taken {
        let text =
            format!("there is a {other_kind} of this name, and sets could not tell the two apart; choose another");
        found.invalid(Rule::TopologyIdentity, &path, name, text);
    }
    let default = &facts.topology;
    if default.enabled && !default.levels.is_empty() && default.name == name && !facts.is_grove {
        let text = "is the name of the default topology, which Grove creates from its configuration; choose another, or \
                    change topologyAwareScheduling.levels there";
        found.invalid(Rule::TopologyIdentity, &path, name, text);
    }
    if name.len() > LONGEST_LABEL {
        let text = format!("must be no more than {LONGEST_LABEL} bytes: it becomes the value of a label");
        found.invalid(Rule::TopologyIdentity, &path, name, text);
    }
}

fn of_topology(topology: &ClusterTopology, _: &TopologyFacts, found: &mut Findings) {
    let levels: Vec<Level> = topology.spec.levels.iter().map(Level::from).collect();
    unique(&levels, found);
    let path = FieldPath::new("spec.levels");
    match levels.len() {
        0 => found.required(Rule::Levels, &path, "name at least one level"),
        1..=MOST_LEVELS => {}
        count => found.invalid(Rule::Levels, &path, count, format!("must have at most {MOST_LEVELS} items")),
    }
    for (at, level) in levels.iter().enumerate() {
        let path = path.item(at, &level.domain);
        if !TopologyDomain::ALL.iter().any(|(name, _)| *name == level.domain) {
            let known: Vec<_> = TopologyDomain::ALL.iter().map(|(name, _)| format!("{name:?}")).collect();
            let supported = format!("supported values: {}", known.join(", "));
            found.not_supported(Rule::LevelSyntax, &path.field("domain"), level.domain.as_str(), &supported);
        }
        if let Err(said) = key(&level.key) {
            found.invalid(Rule::LevelSyntax, &path.field("key"), level.key.as_str(), said);
        }
    }
}

fn of_binding(binding: &ClusterTopologyBinding, facts: &TopologyFacts, found: &mut Findings) {
    let levels: Vec<Level> = binding.spec.levels.iter().map(Level::from).collect();
    unique(&levels, found);
    if levels.is_empty() {
        found.required(Rule::Levels, &FieldPath::new("spec.levels"), "name at least one level");
    }
    let path = FieldPath::new("spec.schedulerTopologyBindings");
    let mut seen = BTreeSet::new();
    for (at, reference) in binding.spec.scheduler_topology_bindings.iter().enumerate() {
        let name = reference.scheduler_name.as_str();
        let path = path.item(at, name).field("schedulerName");
        if !seen.insert(name) {
            found.duplicate(Rule::SchedulerBinding, &path, name);
        }
        let scheduler = facts.schedulers.profiles.iter().find(|profile| profile.name.name() == name);
        match scheduler.map(|profile| profile.name) {
            Some(Scheduler::Kai) => {}
            None => found.invalid(Rule::SchedulerBinding, &path, name, "scheduler backend is not enabled in Grove"),
            Some(Scheduler::Kube | Scheduler::Volcano | Scheduler::Lpx) => {
                let text = "scheduler backend does not implement topology-aware scheduling";
                found.invalid(Rule::SchedulerBinding, &path, name, text);
            }
        }
    }
}

fn unique(levels: &[Level], found: &mut Findings) {
    let (mut domains, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for (at, level) in levels.iter().enumerate() {
        let path = FieldPath::new("spec.levels").item(at, &level.domain);
        if !domains.insert(&level.domain) {
            found.duplicate(Rule::LevelUnique, &path.field("domain"), level.domain.as_str());
        }
        if !keys.insert(&level.key) {
            found.duplicate(Rule::LevelUnique, &path.field("key"), level.key.as_str());
        }
    }
}

/// Levels stay while pods are packed by them; domains that anybody names stay anyway.
fn in_use(new: &Topology, old: &Topology, referring: &[Referring], found: &mut Findings) {
    if new.levels == old.levels {
        return;
    }
    let path = FieldPath::new("spec.levels");
    let scheduled: Vec<_> = referring.iter().filter(|set| set.is_scheduled).collect();
    if !scheduled.is_empty() {
        let sets = named(&scheduled);
        let text = format!(
            "cannot be changed while PodCliqueSets with scheduled pods refer to the topology: {sets}. Create another \
             topology, or delete those sets first"
        );
        found.forbidden(Rule::LevelsInUse, &path, text);
    }
    let kept: BTreeSet<&str> = new.domains().into_iter().collect();
    for domain in old.domains().into_iter().filter(|domain| !kept.contains(domain)) {
        let users: Vec<_> = referring.iter().filter(|set| set.domains.contains(domain)).collect();
        if !users.is_empty() {
            let text = format!("domain {domain:?} cannot be removed, PodCliqueSets use it: {}", named(&users));
            found.forbidden(Rule::LevelsInUse, &path, text);
        }
    }
}

fn named(sets: &[&Referring]) -> String {
    let names: Vec<_> = sets.iter().take(NAMED).map(|referring| referring.set.as_str()).collect();
    match sets.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
