//! Explicit startup: after which other cliques a clique starts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::{CliqueStartupType, PodCliqueTemplateSpec};

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    match judged.template().clique_startup_type {
        CliqueStartupType::Explicit => {
            for (path, clique) in judged.cliques() {
                parents(judged, (&path.field("spec").field("startsAfter"), clique), found);
            }
            cycles(judged, found);
        }
        CliqueStartupType::AnyOrder | CliqueStartupType::InOrder => {
            for (path, _) in judged.cliques().filter(|(_, clique)| !clique.spec.starts_after.is_empty()) {
                let text = "has no effect without cliqueStartupType CliqueStartupTypeExplicit";
                found.warn(&path.field("spec").field("startsAfter"), text);
            }
        }
    }
}

fn parents(judged: &Judged<'_>, (path, clique): (&FieldPath, &PodCliqueTemplateSpec), found: &mut Findings) {
    let rule = Rule::StartsAfter;
    let mut seen = BTreeSet::new();
    for parent in &clique.spec.starts_after {
        if parent.trim().is_empty() {
            found.required(rule, path, "clique dependency must not be empty");
            continue;
        }
        if *parent == clique.name {
            found.invalid(rule, path, parent.as_str(), "clique dependency cannot refer to itself");
        }
        if !seen.insert(parent.as_str()) {
            found.duplicate(rule, path, parent.as_str());
        }
    }
    let unknown: Vec<_> = seen.into_iter().filter(|parent| judged.clique(parent).is_none()).collect();
    if !unknown.is_empty() {
        let text = "unknown clique names found, all clique dependencies must be defined as cliques";
        found.invalid(rule, path, unknown.join(","), text);
    }
}

/// Takes away, again and again, the cliques that wait for none of the others and those for which none waits. What is left
/// waits in a circle, or between two.
fn cycles(judged: &Judged<'_>, found: &mut Findings) {
    let cliques = &judged.template().cliques;
    let known: BTreeSet<&str> = cliques.iter().map(|clique| clique.name.as_str()).collect();
    let mut edges: BTreeSet<(&str, &str)> = BTreeSet::new();
    for clique in cliques {
        let others = clique.spec.starts_after.iter().filter(|parent| **parent != clique.name);
        let others = others.map(String::as_str).filter(|parent| known.contains(parent));
        edges.extend(others.map(|parent| (clique.name.as_str(), parent)));
    }
    let waiting = peel(&edges, |(child, parent)| (child, parent));
    let waited_for = peel(&edges, |(child, parent)| (parent, child));
    let left: Vec<&str> = waiting.intersection(&waited_for).copied().collect();
    if !left.is_empty() {
        let text = "clique must not have circular dependencies";
        found.invalid(Rule::StartupCycle, &template_path().field("cliques"), left, text);
    }
}

/// The nodes from which a circle can be reached along the edges, seen in one direction.
fn peel<'a>(
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
