//! Scaling groups: their names, cliques and replicas.

use std::collections::BTreeSet;

use super::ValidationContext;
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::{INVALID_GROUP_NAME, MIN_AVAILABLE_ABOVE_REPLICAS, NOT_POSITIVE};
use crate::admission::{FieldPath, Rule};
use crate::syntax::dns_label;
use crate::v1alpha1::PodCliqueScalingGroupConfig;

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let (mut names, mut members) = (BTreeSet::new(), BTreeSet::new());
    for (path, group) in context.groups() {
        check_name(&path.field("name"), group, &mut names, errors);
        check_members(context, (&path.field("cliqueNames"), group), &mut members, errors);
        check_replicas(&path, group, errors);
    }
}

fn check_name<'a>(
    path: &FieldPath,
    group: &'a PodCliqueScalingGroupConfig,
    names: &mut BTreeSet<&'a str>,
    errors: &mut ErrorCollector,
) {
    if dns_label(&group.name).is_err() {
        errors.invalid(Rule::GroupName, path, group.name.as_str(), INVALID_GROUP_NAME);
    }
    if !names.insert(&group.name) {
        errors.duplicate(Rule::GroupName, path, group.name.as_str());
    }
}

fn check_members<'a>(
    context: &ValidationContext<'_>,
    (path, group): (&FieldPath, &'a PodCliqueScalingGroupConfig),
    members: &mut BTreeSet<&'a str>,
    errors: &mut ErrorCollector,
) {
    if group.clique_names.is_empty() {
        errors.warn(path, "names no clique, so the group scales nothing");
    }
    let unknown: Vec<_> = group.clique_names.iter().filter(|name| context.clique(name).is_none()).cloned().collect();
    if !unknown.is_empty() {
        errors.invalid(Rule::GroupCliques, path, unknown.join(","), "unidentified PodClique names found");
    }
    for (at, name) in group.clique_names.iter().enumerate() {
        if !members.insert(name) {
            errors.duplicate(Rule::OneGroup, &path.item(at, name), name.as_str());
        }
    }
}

fn check_replicas(path: &FieldPath, group: &PodCliqueScalingGroupConfig, errors: &mut ErrorCollector) {
    let (replicas, min_available) = (group.replicas(), group.min_available());
    if replicas <= 0 {
        errors.invalid(Rule::GroupReplicas, &path.field("replicas"), replicas, NOT_POSITIVE);
    }
    let (rule, path) = (Rule::GroupMinAvailable, path.field("minAvailable"));
    if min_available <= 0 {
        errors.invalid(rule, &path, min_available, NOT_POSITIVE);
    } else if min_available > replicas {
        errors.invalid(rule, &path, min_available, MIN_AVAILABLE_ABOVE_REPLICAS);
    }
}
