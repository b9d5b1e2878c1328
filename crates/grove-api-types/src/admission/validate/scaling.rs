//! The bounds of the autoscalers of cliques and of scaling groups.

use super::ValidationContext;
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::{BoundsMessages, CLIQUE_BOUNDS, GROUP_BOUNDS};
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::AutoScalingConfig;

/// The rule, the numbers and the messages for the autoscaler of a clique or of a group.
struct Bounds {
    rule: Rule,
    min_available: i32,
    replicas: i32,
    messages: BoundsMessages,
}

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    for (path, clique) in context.cliques() {
        let Some(config) = &clique.spec.auto_scaling_config else { continue };
        let bounds = Bounds {
            rule: Rule::CliqueAutoScaling,
            min_available: clique.spec.min_available.unwrap_or_default(),
            replicas: clique.spec.replicas,
            messages: CLIQUE_BOUNDS,
        };
        check_bounds(&path.field("spec").field("autoScalingConfig"), config, &bounds, errors);
    }
    for (path, group) in context.groups() {
        let Some(config) = &group.scale_config else { continue };
        let bounds = Bounds {
            rule: Rule::GroupAutoScaling,
            min_available: group.min_available(),
            replicas: group.replicas(),
            messages: GROUP_BOUNDS,
        };
        check_bounds(&path.field("scaleConfig"), config, &bounds, errors);
    }
    check_members(context, errors);
}

fn check_bounds(path: &FieldPath, config: &AutoScalingConfig, bounds: &Bounds, errors: &mut ErrorCollector) {
    let min = config.min_replicas.unwrap_or(bounds.replicas);
    if min < bounds.min_available {
        errors.invalid(bounds.rule, &path.field("minReplicas"), min, bounds.messages.min_below_min_available);
    }
    let (max, path) = (config.max_replicas, path.field("maxReplicas"));
    if max < min {
        errors.invalid(bounds.rule, &path, max, bounds.messages.max_below_min);
    }
    if max < bounds.replicas {
        errors.invalid(bounds.rule, &path, max, bounds.messages.max_below_replicas);
    }
    if max == min {
        errors.warn(&path, "equals minReplicas, so the autoscaler never scales");
    }
}

fn check_members(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    for (path, group) in context.groups() {
        for (at, name) in group.clique_names.iter().enumerate() {
            let scales = context.clique(name).is_some_and(|clique| clique.spec.auto_scaling_config.is_some());
            if scales {
                let text = "AutoScalingConfig is not allowed to be defined for PodClique that is part of scaling group";
                errors.invalid(Rule::MemberAutoScaling, &path.field("cliqueNames").item(at, name), name.as_str(), text);
            }
        }
    }
}
