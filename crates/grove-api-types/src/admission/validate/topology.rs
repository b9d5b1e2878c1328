//! Topology constraints: the feature is enabled, all names agree, the topology and its levels exist, and a constraint is at
//! least as narrow as that of its parent.

use std::collections::{BTreeMap, BTreeSet};

use super::{ValidationContext, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::TOPOLOGY_WITHOUT_CONSTRAINT;
use crate::admission::{FieldPath, Rule};
use crate::labels::TOPOLOGY_NAME;
use crate::topology::{self, Topology, labelled_topology_name};
use crate::v1alpha1::{PodCliqueSet, TopologyConstraint};

const DISABLED: &str = "topology constraints are not allowed when Topology Aware Scheduling is disabled; topology support \
    is not enabled in the operator";
const DIFFERENT: &str =
    "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation";

/// A constraint, its field, and the text for its object: `PodCliqueSet`, `PodClique 'name'`.
struct ConstraintSource<'a> {
    path: FieldPath,
    object: String,
    constraint: &'a TopologyConstraint,
}

fn of_set<'a>(context: &ValidationContext<'a>) -> Option<ConstraintSource<'a>> {
    let constraint = context.template().topology_constraint.as_ref()?;
    let path = template_path().field("topologyConstraint");
    Some(ConstraintSource { path, object: "PodCliqueSet".to_owned(), constraint })
}

fn of_groups<'a>(context: &ValidationContext<'a>) -> impl Iterator<Item = (&'a [String], ConstraintSource<'a>)> {
    context.groups().filter_map(|(path, group)| {
        let constraint = group.topology_constraint.as_ref()?;
        let object = format!("PodCliqueScalingGroup '{}'", group.name);
        let path = path.field("topologyConstraint");
        Some((group.clique_names.as_slice(), ConstraintSource { path, object, constraint }))
    })
}

fn of_cliques<'a>(context: &ValidationContext<'a>) -> impl Iterator<Item = (&'a str, ConstraintSource<'a>)> {
    context.cliques().filter_map(|(path, clique)| {
        let constraint = clique.topology_constraint.as_ref()?;
        let object = format!("PodClique '{}'", clique.name);
        let path = path.field("topologyConstraint");
        Some((clique.name.as_str(), ConstraintSource { path, object, constraint }))
    })
}

fn all<'a>(context: &ValidationContext<'a>) -> Vec<ConstraintSource<'a>> {
    let groups = of_groups(context).map(|(_, source)| source);
    let cliques = of_cliques(context).map(|(_, source)| source);
    of_set(context).into_iter().chain(groups).chain(cliques).collect()
}

/// The fields that name a topology; that of the template first.
fn names<'a>(context: &ValidationContext<'a>, sources: &[ConstraintSource<'a>]) -> Vec<(FieldPath, &'a str)> {
    let own = context.template().cluster_topology_name.as_deref();
    let own = own.map(|name| (template_path().field("clusterTopologyName"), name));
    let within = sources
        .iter()
        .filter_map(|source| Some((source.path.field("topologyName"), source.constraint.topology_name.as_deref()?)));
    own.into_iter().chain(within).filter(|(_, name)| !name.is_empty()).collect()
}

/// The domains that a constraint names, as the value of an error.
pub(super) fn domains(constraint: &TopologyConstraint) -> Vec<&str> {
    [constraint.required(), constraint.preferred()].into_iter().flatten().collect()
}

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let sources = all(context);
    let names = names(context, &sources);
    if !context.facts.topology.enabled {
        deny_all(&sources, &names, errors);
        return;
    }
    for ConstraintSource { path, constraint, .. } in &sources {
        check_form(path, constraint, errors);
    }
    if names.windows(2).any(|pair| matches!(pair, [(_, one), (_, other)] if one != other)) {
        for (path, name) in &names {
            errors.invalid(Rule::TopologyName, path, *name, DIFFERENT);
        }
        return;
    }
    let Some(name) = context.topology_name else {
        for (path, name) in &names {
            errors.invalid(Rule::TopologyName, path, *name, TOPOLOGY_WITHOUT_CONSTRAINT);
        }
        return;
    };
    let topologies = &context.facts.topologies;
    let topology = topologies.iter().find(|topology| topology.name == name);
    if topology.is_none_or(|topology| topology.is_terminating) {
        let written = names.into_iter().next().map(|(path, _)| path);
        let path = written.unwrap_or_else(|| template_path().field("clusterTopologyName"));
        let state = if topology.is_some() { "is terminating" } else { "not found" };
        let text =
            format!("ClusterTopology or ClusterTopologyBinding {name:?} {state}; create it or choose another topology");
        errors.invalid(Rule::TopologyExists, &path, name, text);
    }
    if let Some(topology) = topology {
        // `count` checks every constraint, also after the first error.
        let unknown = sources.iter().filter(|source| !check_levels(source, topology, errors)).count();
        if unknown == 0 {
            check_hierarchy(context, topology, errors);
        }
    }
}

fn deny_all(sources: &[ConstraintSource<'_>], names: &[(FieldPath, &str)], errors: &mut ErrorCollector) {
    for ConstraintSource { path, constraint, .. } in sources {
        errors.invalid(Rule::TopologyEnabled, path, domains(constraint), DISABLED);
    }
    for (path, name) in names {
        errors.invalid(Rule::TopologyEnabled, path, *name, DISABLED);
    }
}

fn check_form(path: &FieldPath, constraint: &TopologyConstraint, errors: &mut ErrorCollector) {
    let written = constraint.pack.as_ref().and_then(|pack| pack.required.as_deref());
    if let (Some(required), Some(domain)) = (written, constraint.pack_domain.as_deref())
        && required != domain
    {
        let text = "packDomain and pack.required mean the same and must not differ; set one of them";
        errors.invalid(Rule::TopologyDomain, &path.field("pack.required"), required, text);
    }
    if domains(constraint).is_empty() {
        let text = "topologyConstraint must specify pack or packDomain";
        errors.required(Rule::TopologyDomain, &path.field("pack"), text);
    }
}

/// The field that contains the required domain.
fn required_field(constraint: &TopologyConstraint) -> &'static str {
    let is_packed = constraint.pack.as_ref().is_some_and(|pack| pack.required.is_some());
    if is_packed { "pack.required" } else { "packDomain" }
}

/// Checks that the domains of a constraint are levels of the topology; true if they are.
fn check_levels(
    ConstraintSource { path, constraint, .. }: &ConstraintSource<'_>,
    topology: &Topology,
    errors: &mut ErrorCollector,
) -> bool {
    let required = constraint.required().map(|domain| (required_field(constraint), domain));
    let preferred = constraint.preferred().map(|domain| ("pack.preferred", domain));
    let mut fits = true;
    for (field, domain) in required.into_iter().chain(preferred) {
        if topology.depth(domain).is_none() {
            let known = topology.domains().join(" ");
            let text = format!("topology domain '{domain}' does not exist in cluster topology [{known}]");
            errors.invalid(Rule::TopologyLevel, &path.field(field), domain, text);
            fits = false;
        }
    }
    let depth = |domain: Option<&str>| domain.and_then(|domain| topology.depth(domain));
    if let (Some(required), Some(preferred)) = (depth(constraint.required()), depth(constraint.preferred()))
        && preferred < required
    {
        let required = path.field(required_field(constraint));
        errors.warn_general(format!("{path}.pack.preferred is coarser than {required} and is redundant"));
    }
    fits
}

/// Compares the constraints of the set with those of its cliques and groups, and those of a group with those of its cliques.
fn check_hierarchy(context: &ValidationContext<'_>, topology: &Topology, errors: &mut ErrorCollector) {
    let cliques: Vec<_> = of_cliques(context).collect();
    let by_name: BTreeMap<&str, &ConstraintSource<'_>> = cliques.iter().map(|(name, clique)| (*name, clique)).collect();
    if let Some(set) = of_set(context) {
        for (_, clique) in &cliques {
            check_nested(&set, clique, topology, errors);
        }
        for (_, group) in of_groups(context) {
            check_nested(&set, &group, topology, errors);
        }
    }
    for (members, group) in of_groups(context) {
        let members: BTreeSet<&str> = members.iter().map(String::as_str).collect();
        for clique in members.into_iter().filter_map(|name| by_name.get(name)) {
            check_nested(&group, clique, topology, errors);
        }
    }
}

fn check_nested(
    parent: &ConstraintSource<'_>,
    child: &ConstraintSource<'_>,
    topology: &Topology,
    errors: &mut ErrorCollector,
) {
    let required = (parent.path.clone(), parent.constraint.required(), child.constraint.required());
    let preferred = (parent.path.field("pack.preferred"), parent.constraint.preferred(), child.constraint.preferred());
    for (path, outer, inner) in [required, preferred] {
        let (Some(outer), Some(inner)) = (outer, inner) else { continue };
        if topology.depth(outer) > topology.depth(inner) {
            let (parent, child) = (&parent.object, &child.object);
            let text = format!(
                "{parent} topology constraint domain '{outer}' is narrower than {child} topology constraint domain \
                 '{inner}'"
            );
            errors.invalid(Rule::TopologyHierarchy, &path, outer, text);
        }
    }
}

/// The reference is immutable while pods are scheduled, and only Grove changes the label.
pub(super) fn check_update(context: &ValidationContext<'_>, old: &PodCliqueSet, errors: &mut ErrorCollector) {
    let default = context.facts.topology.name.as_str();
    let (before, now) = (topology::resolve_topology_name(old, default), context.topology_name);
    let is_other = match (before, now) {
        (Some(before), Some(now)) => before != now,
        (None, Some(now)) => now != default,
        (_, None) => false,
    };
    if is_other && context.facts.is_scheduled {
        let sources = all(context);
        let written = names(context, &sources).into_iter().next().map(|(path, _)| path);
        let path = written.unwrap_or_else(|| template_path().field("clusterTopologyName"));
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        let text = format!(
            "topologyName cannot be changed from {before:?} to {now:?} while pods of the PodCliqueSet are scheduled"
        );
        errors.forbidden(Rule::TopologyImmutable, &path, text);
    }
    let (before, label) = (labelled_topology_name(old), labelled_topology_name(context.set));
    if label.is_some() && label != before && label != now {
        let path = FieldPath::new("metadata.labels").field(TOPOLOGY_NAME);
        let (before, label) = (before.unwrap_or_default(), label.unwrap_or_default());
        let text = format!(
            "only Grove changes this label; it cannot be changed from {before:?} to {label:?}; set clusterTopologyName \
             to refer to another topology"
        );
        errors.forbidden(Rule::TopologyLabel, &path, text);
    }
}
