//! Topology constraints: that they can be had, name one topology that exists and levels that it has, and get no wider on
//! the way from the set to its cliques.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::texts::NOTHING_PACKED;
use crate::admission::{FieldPath, Rule};
use crate::labels::TOPOLOGY_NAME;
use crate::topology::{self, Topology};
use crate::v1alpha1::{PodCliqueSet, TopologyConstraint};

const DISABLED: &str = "topology constraints are not allowed when Topology Aware Scheduling is disabled; topology support \
    is not enabled in the operator";
const DIFFERENT: &str =
    "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation";

/// A constraint and what carries it: `PodCliqueSet`, `PodClique 'name'`.
struct Constrained<'a> {
    path: FieldPath,
    carrier: String,
    constraint: &'a TopologyConstraint,
}

fn of_set<'a>(judged: &Judged<'a>) -> Option<Constrained<'a>> {
    let constraint = judged.template().topology_constraint.as_ref()?;
    let path = template_path().field("topologyConstraint");
    Some(Constrained { path, carrier: "PodCliqueSet".to_owned(), constraint })
}

fn of_groups<'a>(judged: &Judged<'a>) -> impl Iterator<Item = (&'a [String], Constrained<'a>)> {
    judged.groups().filter_map(|(path, group)| {
        let constraint = group.topology_constraint.as_ref()?;
        let carrier = format!("PodCliqueScalingGroup '{}'", group.name);
        let path = path.field("topologyConstraint");
        Some((group.clique_names.as_slice(), Constrained { path, carrier, constraint }))
    })
}

fn of_cliques<'a>(judged: &Judged<'a>) -> impl Iterator<Item = (&'a str, Constrained<'a>)> {
    judged.cliques().filter_map(|(path, clique)| {
        let constraint = clique.topology_constraint.as_ref()?;
        let carrier = format!("PodClique '{}'", clique.name);
        let path = path.field("topologyConstraint");
        Some((clique.name.as_str(), Constrained { path, carrier, constraint }))
    })
}

fn all<'a>(judged: &Judged<'a>) -> Vec<Constrained<'a>> {
    let groups = of_groups(judged).map(|(_, constrained)| constrained);
    let cliques = of_cliques(judged).map(|(_, constrained)| constrained);
    of_set(judged).into_iter().chain(groups).chain(cliques).collect()
}

/// The fields that name a topology, the template's own first.
fn names<'a>(judged: &Judged<'a>, constrained: &[Constrained<'a>]) -> Vec<(FieldPath, &'a str)> {
    let own = judged.template().cluster_topology_name.as_deref();
    let own = own.map(|name| (template_path().field("clusterTopologyName"), name));
    let within = constrained.iter().filter_map(|constrained| {
        Some((constrained.path.field("topologyName"), constrained.constraint.topology_name.as_deref()?))
    });
    own.into_iter().chain(within).filter(|(_, name)| !name.is_empty()).collect()
}

/// The domains that a constraint names, as the value of an error.
pub(super) fn domains(constraint: &TopologyConstraint) -> Vec<&str> {
    [constraint.required(), constraint.preferred()].into_iter().flatten().collect()
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let constrained = all(judged);
    let names = names(judged, &constrained);
    if !judged.facts.topology.enabled {
        disabled(&constrained, &names, found);
        return;
    }
    for Constrained { path, constraint, .. } in &constrained {
        form(path, constraint, found);
    }
    if names.windows(2).any(|pair| matches!(pair, [(_, one), (_, other)] if one != other)) {
        for (path, name) in &names {
            found.invalid(Rule::TopologyName, path, *name, DIFFERENT);
        }
        return;
    }
    let Some(name) = judged.reference else {
        for (path, name) in &names {
            found.invalid(Rule::TopologyName, path, *name, NOTHING_PACKED);
        }
        return;
    };
    let topologies = &judged.facts.topologies;
    let topology = topologies.iter().find(|topology| topology.name == name);
    if topology.is_none_or(|topology| topology.is_terminating) {
        let written = names.into_iter().next().map(|(path, _)| path);
        let path = written.unwrap_or_else(|| template_path().field("clusterTopologyName"));
        let ending = if topology.is_some() { "is being deleted" } else { "not found" };
        let text =
            format!("ClusterTopology or ClusterTopologyBinding {name:?} {ending}; create it or name another one");
        found.invalid(Rule::TopologyExists, &path, name, text);
    }
    if let Some(topology) = topology {
        // Each is looked at, whatever was found at another.
        let strangers = constrained.iter().filter(|constrained| !levels(constrained, topology, found)).count();
        if strangers == 0 {
            hierarchy(judged, topology, found);
        }
    }
}

fn disabled(constrained: &[Constrained<'_>], names: &[(FieldPath, &str)], found: &mut Findings) {
    for Constrained { path, constraint, .. } in constrained {
        found.invalid(Rule::TopologyEnabled, path, domains(constraint), DISABLED);
    }
    for (path, name) in names {
        found.invalid(Rule::TopologyEnabled, path, *name, DISABLED);
    }
}

fn form(path: &FieldPath, constraint: &TopologyConstraint, found: &mut Findings) {
    let written = constraint.pack.as_ref().and_then(|pack| pack.required.as_deref());
    if let (Some(required), Some(domain)) = (written, constraint.pack_domain.as_deref())
        && required != domain
    {
        let text = "packDomain and pack.required mean the same and must not differ; set one of them";
        found.invalid(Rule::TopologyDomain, &path.field("pack.required"), required, text);
    }
    if domains(constraint).is_empty() {
        let text = "topologyConstraint must specify pack or packDomain";
        found.required(Rule::TopologyDomain, &path.field("pack"), text);
    }
}

/// The field in which the required domain is written.
fn required_field(constraint: &TopologyConstraint) -> &'static str {
    let is_packed = constraint.pack.as_ref().is_some_and(|pack| pack.required.is_some());
    if is_packed { "pack.required" } else { "packDomain" }
}

/// Whether the domains of a constraint are levels of the topology.
fn levels(Constrained { path, constraint, .. }: &Constrained<'_>, topology: &Topology, found: &mut Findings) -> bool {
    let required = constraint.required().map(|domain| (required_field(constraint), domain));
    let preferred = constraint.preferred().map(|domain| ("pack.preferred", domain));
    let mut fits = true;
    for (field, domain) in required.into_iter().chain(preferred) {
        if topology.depth(domain).is_none() {
            let known = topology.domains().join(" ");
            let text = format!("topology domain '{domain}' does not exist in cluster topology [{known}]");
            found.invalid(Rule::TopologyLevel, &path.field(field), domain, text);
            fits = false;
        }
    }
    let depth = |domain: Option<&str>| domain.and_then(|domain| topology.depth(domain));
    if let (Some(required), Some(preferred)) = (depth(constraint.required()), depth(constraint.preferred()))
        && preferred < required
    {
        let required = path.field(required_field(constraint));
        found.tell(format!("{path}.pack.preferred is coarser than {required} and is redundant"));
    }
    fits
}

/// Each with what is part of it: the set with cliques and groups, a group with its cliques.
fn hierarchy(judged: &Judged<'_>, topology: &Topology, found: &mut Findings) {
    let cliques: Vec<_> = of_cliques(judged).collect();
    let by_name: BTreeMap<&str, &Constrained<'_>> = cliques.iter().map(|(name, clique)| (*name, clique)).collect();
    if let Some(set) = of_set(judged) {
        for (_, clique) in &cliques {
            nested(&set, clique, topology, found);
        }
        for (_, group) in of_groups(judged) {
            nested(&set, &group, topology, found);
        }
    }
    for (members, group) in of_groups(judged) {
        let members: BTreeSet<&str> = members.iter().map(String::as_str).collect();
        for clique in members.into_iter().filter_map(|name| by_name.get(name)) {
            nested(&group, clique, topology, found);
        }
    }
}

fn nested(parent: &Constrained<'_>, child: &Constrained<'_>, topology: &Topology, found: &mut Findings) {
    let required = (parent.path.clone(), parent.constraint.required(), child.constraint.required());
    let preferred = (parent.path.field("pack.preferred"), parent.constraint.preferred(), child.constraint.preferred());
    for (path, outer, inner) in [required, preferred] {
        let (Some(outer), Some(inner)) = (outer, inner) else { continue };
        if topology.depth(outer) > topology.depth(inner) {
            let (parent, child) = (&parent.carrier, &child.carrier);
            let text = format!(
                "{parent} topology constraint domain '{outer}' is narrower than {child} topology constraint domain \
                 '{inner}'"
            );
            found.invalid(Rule::TopologyHierarchy, &path, outer, text);
        }
    }
}

/// What becomes of the reference, and whose the label is.
pub(super) fn on_update(judged: &Judged<'_>, old: &PodCliqueSet, found: &mut Findings) {
    let default = judged.facts.topology.name.as_str();
    let (before, now) = (topology::resolve_topology_name(old, default), judged.reference);
    let is_other = match (before, now) {
        (Some(before), Some(now)) => before != now,
        (None, Some(now)) => now != default,
        (_, None) => false,
    };
    if is_other && judged.facts.is_scheduled {
        let constrained = all(judged);
        let written = names(judged, &constrained).into_iter().next().map(|(path, _)| path);
        let path = written.unwrap_or_else(|| template_path().field("clusterTopologyName"));
        let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
        let text = format!(
            "topologyName cannot be changed from {before:?} to {now:?} while pods of the PodCliqueSet are scheduled"
        );
        found.forbidden(Rule::TopologyFrozen, &path, text);
    }
    let label = |set: &PodCliqueSet| set.labels().get(TOPOLOGY_NAME).cloned();
    let (before, label) = (label(old), label(judged.set));
    if label.is_some() && label != before && label.as_deref() != now {
        let path = FieldPath::new("metadata.labels").field(TOPOLOGY_NAME);
        let (before, label) = (before.unwrap_or_default(), label.unwrap_or_default());
        let text = format!(
            "the label is Grove's and cannot be changed from {before:?} to {label:?}; to refer to another topology write \
             its name into clusterTopologyName"
        );
        found.forbidden(Rule::TopologyLabel, &path, text);
    }
}
