//! The topology of a cluster, and the topology that a set refers to. [`Topology`] represents both kinds of topology objects, so
//! that no other code depends on the kind.

use std::collections::BTreeSet;

use kube::ResourceExt;

use crate::configuration::{TopologyDomain, TopologyLevel};
use crate::deletion::is_terminating;
use crate::labels::TOPOLOGY_NAME;
use crate::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, ClusterTopologyLevel, PodCliqueSet, PodCliqueSetTemplateSpec,
    TopologyBindingLevel, TopologyConstraint,
};

/// A topology of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The name of the topology.
    pub name: String,
    /// The levels, the broadest first.
    pub levels: Vec<Level>,
    /// Whether the object is terminating. For new references, a terminating topology counts as not found.
    pub is_terminating: bool,
}

/// One level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The name of the level in constraints.
    pub domain: String,
    /// The node label whose value is the domain of the node.
    pub key: String,
}

impl Topology {
    /// The index of the level of a domain; a greater index means a narrower domain.
    pub fn depth(&self, domain: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.domain == domain)
    }

    /// The domains, the broadest first.
    pub fn domains(&self) -> Vec<&str> {
        self.levels.iter().map(|level| level.domain.as_str()).collect()
    }
}

/// The levels as text, for messages.
pub fn join_levels(levels: &[Level]) -> String {
    let levels: Vec<String> = levels.iter().map(|Level { domain, key }| format!("{domain}={key}")).collect();
    levels.join(", ")
}

impl From<&TopologyLevel> for Level {
    fn from(level: &TopologyLevel) -> Self {
        Self { domain: level.domain.as_str().to_owned(), key: level.key.clone() }
    }
}

impl From<&ClusterTopologyLevel> for Level {
    fn from(level: &ClusterTopologyLevel) -> Self {
        Self { domain: level.domain.clone(), key: level.key.clone() }
    }
}

impl From<&TopologyBindingLevel> for Level {
    fn from(level: &TopologyBindingLevel) -> Self {
        Self { domain: level.domain.clone(), key: level.key.clone() }
    }
}

impl From<&ClusterTopology> for Topology {
    fn from(topology: &ClusterTopology) -> Self {
        let mut levels: Vec<Level> = topology.spec.levels.iter().map(Level::from).collect();
        levels.sort_by_key(|level| domain_rank(&level.domain));
        Self { name: topology.name_any(), levels, is_terminating: is_terminating(topology) }
    }
}

impl From<&ClusterTopologyBinding> for Topology {
    fn from(topology: &ClusterTopologyBinding) -> Self {
        let levels = topology.spec.levels.iter().map(Level::from).collect();
        Self { name: topology.name_any(), levels, is_terminating: is_terminating(topology) }
    }
}

/// The rank of a domain among the seven predefined domains, the broadest first; an unknown domain comes last.
pub fn domain_rank(domain: &str) -> usize {
    TopologyDomain::ALL.iter().position(|(name, _)| *name == domain).unwrap_or(TopologyDomain::ALL.len())
}

/// All constraints of a template: those of the set, of its scaling groups and of its cliques.
pub fn constraints(template: &PodCliqueSetTemplateSpec) -> impl Iterator<Item = &TopologyConstraint> {
    let groups = template.pod_clique_scaling_groups.iter().filter_map(|group| group.topology_constraint.as_ref());
    let cliques = template.cliques.iter().filter_map(|clique| clique.topology_constraint.as_ref());
    template.topology_constraint.iter().chain(groups).chain(cliques)
}

/// The topology name in a template: `clusterTopologyName`, otherwise the first `topologyName` of a constraint.
pub fn explicit_topology_name(template: &PodCliqueSetTemplateSpec) -> Option<&str> {
    let within = constraints(template).filter_map(|constraint| constraint.topology_name.as_deref());
    template.cluster_topology_name.as_deref().into_iter().chain(within).find(|name| !name.is_empty())
}

/// The topology name in the label `grove.io/topology-name` of a set. An empty value is no name.
pub fn labelled_topology_name(set: &PodCliqueSet) -> Option<&str> {
    set.labels().get(TOPOLOGY_NAME).map(String::as_str).filter(|name| !name.is_empty())
}

/// The name of the topology that a set refers to: none without a constraint, otherwise the explicit name, otherwise the label
/// `grove.io/topology-name`, otherwise the configured default.
pub fn resolve_topology_name<'a>(set: &'a PodCliqueSet, default: &'a str) -> Option<&'a str> {
    let template = &set.spec.template;
    constraints(template).next()?;
    explicit_topology_name(template).or_else(|| labelled_topology_name(set)).or(Some(default))
}

/// The name of the topology that a new set refers to. Only Grove sets the label, so it does not count on a new set.
pub fn resolve_topology_name_on_create<'a>(set: &'a PodCliqueSet, default: &'a str) -> Option<&'a str> {
    let template = &set.spec.template;
    constraints(template).next()?;
    explicit_topology_name(template).or(Some(default))
}

/// The name of the topology that an updated set refers to. It is that of [`resolve_topology_name`], but the old label counts only
/// if the explicit name does not change.
pub fn resolve_topology_name_on_update<'a>(
    new: &'a PodCliqueSet,
    old: &'a PodCliqueSet,
    default: &'a str,
) -> Option<&'a str> {
    let template = &new.spec.template;
    constraints(template).next()?;
    let (explicit, before) = (explicit_topology_name(template), explicit_topology_name(&old.spec.template));
    let label = if explicit == before { resolve_topology_name(old, default) } else { None };
    explicit.or(label).or(Some(default))
}

/// The domains in the constraints of a template.
pub fn used_domains(template: &PodCliqueSetTemplateSpec) -> BTreeSet<&str> {
    constraints(template).flat_map(|constraint| [constraint.required(), constraint.preferred()]).flatten().collect()
}
