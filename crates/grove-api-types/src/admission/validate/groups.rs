//! Scaling groups: their names, their cliques and their numbers.

use std::collections::BTreeSet;

use super::Judged;
use crate::admission::findings::Findings;
use crate::admission::texts::{ABOVE_REPLICAS, ABOVE_ZERO, GROUP_NAME};
use crate::admission::{FieldPath, Rule};
use crate::syntax::dns_label;
use crate::v1alpha1::PodCliqueScalingGroupConfig;

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let (mut names, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (path, group) in judged.groups() {
        name(&path.field("name"), group, &mut names, found);
        members(judged, (&path.field("cliqueNames"), group), &mut taken, found);
        numbers(&path, group, found);
    }
}

fn name<'a>(
    path: &FieldPath,
    group: &'a PodCliqueScalingGroupConfig,
    names: &mut BTreeSet<&'a str>,
    found: &mut Findings,
) {
    if dns_label(&group.name).is_err() {
        found.invalid(Rule::GroupName, path, group.name.as_str(), GROUP_NAME);
    }
    if !names.insert(&group.name) {
        found.duplicate(Rule::GroupName, path, group.name.as_str());
    }
}

fn members<'a>(
    judged: &Judged<'_>,
    (path, group): (&FieldPath, &'a PodCliqueScalingGroupConfig),
    taken: &mut BTreeSet<&'a str>,
    found: &mut Findings,
) {
    if group.clique_names.is_empty() {
        found.warn(path, "names no clique; the group has nothing to scale");
    }
    let unknown: Vec<_> = group.clique_names.iter().filter(|name| judged.clique(name).is_none()).cloned().collect();
    if !unknown.is_empty() {
        found.invalid(Rule::GroupCliques, path, unknown.join(","), "unidentified PodClique names found");
    }
    for (at, name) in group.clique_names.iter().enumerate() {
        if !taken.insert(name) {
            found.duplicate(Rule::OneGroup, &path.item(at, name), name.as_str());
        }
    }
}

fn numbers(path: &FieldPath, group: &PodCliqueScalingGroupConfig, found: &mut Findings) {
    let (replicas, least) = (group.replicas(), group.min_available());
    if replicas <= 0 {
        found.invalid(Rule::GroupReplicas, &path.field("replicas"), replicas, ABOVE_ZERO);
    }
    let (rule, path) = (Rule::GroupMinAvailable, path.field("minAvailable"));
    if least <= 0 {
        found.invalid(rule, &path, least, ABOVE_ZERO);
    } else if least > replicas {
        found.invalid(rule, &path, least, ABOVE_REPLICAS);
    }
}
