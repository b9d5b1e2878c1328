//! Denies a set if one of its cliques, or all together, would have too many startup dependencies.

use serde_json::Value;

use super::{ValidationContext, template_path};
use crate::admission::error_collector::{ErrorCollector, ExceededLimit};
use crate::admission::field_path::fingerprint;
use crate::admission::messages::{too_many_dependencies, too_many_dependencies_of_clique};
use crate::admission::{FieldPath, Rule};
use crate::expansion::dependency_count::{self, DependencyCount, MAX_DEPENDENCIES, MAX_DEPENDENCIES_OF_CLIQUE};
use crate::v1alpha1::PodCliqueScalingGroupConfig;

/// If a clique has too many dependencies, the error about the set is omitted: it would repeat the same mistake.
pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let replica = dependency_count::of_replica(context.template());
    let is_clique_too_large = replica.largest > MAX_DEPENDENCIES_OF_CLIQUE;
    if is_clique_too_large {
        report_clique(context, replica.largest, errors);
    }
    let total = dependency_count::of_template(context.set).total();
    if total > MAX_DEPENDENCIES && (!is_clique_too_large || errors.is_stored()) {
        report_set(context, replica, total, errors);
    }
}

/// Reports the largest `minAvailable`. Without scaling groups in the base gang, only the list of cliques can be too long.
fn report_clique(context: &ValidationContext<'_>, largest: u64, errors: &mut ErrorCollector) {
    let group = largest_number(context, "minAvailable", PodCliqueScalingGroupConfig::min_available);
    let (path, value) = group.unwrap_or_else(|| (template_path().field("cliques"), Value::from(largest)));
    let excess = ExceededLimit { limit: fingerprint((Rule::StartupDependencies.name(), "clique")), amount: largest };
    errors.exceeds((Rule::StartupDependencies, &path), value, excess, too_many_dependencies_of_clique(largest));
}

/// Reports the replicas of the set if one replica has no more than a set may have. Otherwise reports a scaling group: the largest
/// `minAvailable` if most dependencies are in the base gang, or the most replicas.
fn report_set(context: &ValidationContext<'_>, replica: DependencyCount, total: u64, errors: &mut ErrorCollector) {
    let group = if replica.total() <= MAX_DEPENDENCIES {
        None
    } else if replica.in_base_gangs >= replica.in_scaled_gangs {
        largest_number(context, "minAvailable", PodCliqueScalingGroupConfig::min_available)
    } else {
        largest_number(context, "replicas", PodCliqueScalingGroupConfig::replicas)
    };
    let of_set = || (FieldPath::new("spec.replicas"), Value::from(context.set.spec.replicas));
    let (path, value) = group.unwrap_or_else(of_set);
    let excess = ExceededLimit { limit: fingerprint(Rule::StartupDependencies.name()), amount: total };
    errors.exceeds((Rule::StartupDependencies, &path), value, excess, too_many_dependencies(total));
}

/// The path and the value of this field of the scaling group that has the largest value above 1.
fn largest_number(
    context: &ValidationContext<'_>,
    field: &'static str,
    number: fn(&PodCliqueScalingGroupConfig) -> i32,
) -> Option<(FieldPath, Value)> {
    let groups = context.groups().map(|(path, group)| (path, number(group))).filter(|(_, number)| *number > 1);
    let (path, number) = groups.max_by_key(|(_, number)| *number)?;
    Some((path.field(field), Value::from(number)))
}
