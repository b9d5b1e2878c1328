//! The topology of a cluster as the rules see it, and which topology a set refers to. Both kinds of topology objects are
//! read into one value; after that nobody asks which kind it was.

use std::collections::BTreeSet;

use kube::ResourceExt;

use crate::configuration::TopologyDomain;
use crate::deletion::is_terminating;
use crate::labels::TOPOLOGY_NAME;
use crate::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, ClusterTopologyLevel, PodCliqueSet, PodCliqueSetTemplateSpec,
    TopologyBindingLevel, TopologyConstraint,
};

/// A topology: its levels, the broadest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Its name.
    pub name: String,
    /// Its levels, the broadest first.
    pub levels: Vec<Level>,
    /// Whether it is being deleted. New references treat it as absent.
    pub is_terminating: bool,
}

/// One level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// What constraints call it.
    pub domain: String,
    /// The label of nodes that says in which domain of the level they are.
    pub key: String,
}

impl Topology {
    /// How narrow a domain is: its place among the levels.
    pub fn depth(&self, domain: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.domain == domain)
    }

    /// The domains, the broadest first.
    pub fn domains(&self) -> Vec<&str> {
        self.levels.iter().map(|level| level.domain.as_str()).collect()
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

/// The place of a domain among the seven, the broadest first; what is none of them comes last.
pub fn domain_rank(domain: &str) -> usize {
    TopologyDomain::ALL.iter().position(|(name, _)| *name == domain).unwrap_or(TopologyDomain::ALL.len())
}

/// Every constraint of a template: the set's own, those of its scaling groups, those of its cliques.
pub fn constraints(template: &PodCliqueSetTemplateSpec) -> impl Iterator<Item = &TopologyConstraint> {
    let groups = template.pod_clique_scaling_groups.iter().filter_map(|group| group.topology_constraint.as_ref());
    let cliques = template.cliques.iter().filter_map(|clique| clique.topology_constraint.as_ref());
    template.topology_constraint.iter().chain(groups).chain(cliques)
}

/// The topology that a template names: its own field, else the first constraint that names one.
pub fn explicit_topology_name(template: &PodCliqueSetTemplateSpec) -> Option<&str> {
    let within = constraints(template).filter_map(|constraint| constraint.topology_name.as_deref());
    template.cluster_topology_name.as_deref().into_iter().chain(within).find(|name| !name.is_empty())
}

/// The topology that a set refers to: none without a constraint; else the name that is written, else the one that the set
/// was labelled with, else the configured default.
pub fn resolve_topology_name<'a>(set: &'a PodCliqueSet, default: &'a str) -> Option<&'a str> {
    let template = &set.spec.template;
    constraints(template).next()?;
    let label = || set.labels().get(TOPOLOGY_NAME).map(String::as_str);
    explicit_topology_name(template).or_else(label).or(Some(default))
}

/// The topology that a set refers to that is being created: nobody can have labelled it yet.
pub fn resolve_topology_name_on_create<'a>(set: &'a PodCliqueSet, default: &'a str) -> Option<&'a str> {
    let template = &set.spec.template;
    constraints(template).next()?;
    explicit_topology_name(template).or(Some(default))
}

/// The topology that a set refers to after an update: as [`resolve_topology_name`], except that the old label counts only as long as
/// the names in the template stay what they were.
pub fn resolve_topology_name_on_update<'a>(
    new: &'a PodCliqueSet,
    old: &'a PodCliqueSet,
    default: &'a str,
) -> Option<&'a str> {
    let template = &new.spec.template;
    constraints(template).next()?;
    let (written, before) = (explicit_topology_name(template), explicit_topology_name(&old.spec.template));
    let kept = if written == before { resolve_topology_name(old, default) } else { None };
    written.or(kept).or(Some(default))
}

/// The domains that the constraints of a template name.
pub fn used_domains(template: &PodCliqueSetTemplateSpec) -> BTreeSet<&str> {
    constraints(template).flat_map(|constraint| [constraint.required(), constraint.preferred()]).flatten().collect()
}
