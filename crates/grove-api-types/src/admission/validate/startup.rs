//! The field `startsAfter`: its names, and circular dependencies.

use std::collections::{BTreeMap, BTreeSet};

use super::{ValidationContext, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::{CliqueStartupType, PodCliqueTemplateSpec};

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    match context.template().clique_startup_type {
        CliqueStartupType::Explicit => {
            for (path, clique) in context.cliques() {
                check_parents(context, (&path.field("spec").field("startsAfter"), clique), errors);
            }
            check_cycles(context, errors);
        }
        CliqueStartupType::AnyOrder | CliqueStartupType::InOrder => {
            for (path, _) in context.cliques().filter(|(_, clique)| !clique.spec.starts_after.is_empty()) {
                let text = "has no effect without cliqueStartupType CliqueStartupTypeExplicit";
                errors.warn(&path.field("spec").field("startsAfter"), text);
            }
        }
    }
}

fn check_parents(
    context: &ValidationContext<'_>,
    (path, clique): (&FieldPath, &PodCliqueTemplateSpec),
    errors: &mut ErrorCollector,
) {
    let rule = Rule::StartsAfter;
    let mut seen = BTreeSet::new();
    for parent in &clique.spec.starts_after {
        if parent.trim().is_empty() {
            errors.required(rule, path, "clique dependency must not be empty");
            continue;
        }
        if *parent == clique.name {
            errors.invalid(rule, path, parent.as_str(), "clique dependency cannot refer to itself");
        }
        if !seen.insert(parent.as_str()) {
            errors.duplicate(rule, path, parent.as_str());
        }
    }
    let unknown: Vec<_> = seen.into_iter().filter(|parent| context.clique(parent).is_none()).collect();
    if !unknown.is_empty() {
        let text = "unknown clique names found, all clique dependencies must be defined as cliques";
        errors.invalid(rule, path, unknown.join(","), text);
    }
}

/// Removes repeatedly the cliques without a parent, and those without a child. The remaining cliques are in a cycle, or on a
/// path between two cycles.
fn check_cycles(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let cliques = &context.template().cliques;
    let known: BTreeSet<&str> = cliques.iter().map(|clique| clique.name.as_str()).collect();
    let mut edges: BTreeSet<(&str, &str)> = BTreeSet::new();
    for clique in cliques {
        let others = clique.spec.starts_after.iter().filter(|parent| **parent != clique.name);
        let others = others.map(String::as_str).filter(|parent| known.contains(parent));
        edges.extend(others.map(|parent| (clique.name.as_str(), parent)));
    }
    let with_parents = remove_leaves(&edges, |(child, parent)| (child, parent));
    let with_children = remove_leaves(&edges, |(child, parent)| (parent, child));
    let cyclic: Vec<&str> = with_parents.intersection(&with_children).copied().collect();
    if !cyclic.is_empty() {
        let text = "clique must not have circular dependencies";
        errors.invalid(Rule::StartupCycle, &template_path().field("cliques"), cyclic, text);
    }
}

/// The nodes from which a path of directed edges leads to a cycle.
fn remove_leaves<'a>(
    edges: &BTreeSet<(&'a str, &'a str)>,
    directed: impl Fn((&'a str, &'a str)) -> (&'a str, &'a str),
) -> BTreeSet<&'a str> {
    let mut outgoing: BTreeMap<&str, usize> = BTreeMap::new();
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges {
        let (from, to) = directed(*edge);
        *outgoing.entry(from).or_default() += 1;
        outgoing.entry(to).or_default();
        before.entry(to).or_default().push(from);
    }
    let mut free: Vec<&str> = outgoing.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = free.pop() {
        outgoing.remove(name);
        for from in before.remove(name).unwrap_or_default() {
            let Some(count) = outgoing.get_mut(from) else { continue };
            *count -= 1;
            if *count == 0 {
                free.push(from);
            }
        }
    }
    outgoing.into_keys().collect()
}
