//! Autoscalers: the bounds between which they move, of cliques and of scaling groups.

use super::Judged;
use crate::admission::findings::Findings;
use crate::admission::texts::{Bounds, CLIQUE_BOUNDS, GROUP_BOUNDS};
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::AutoScalingConfig;

/// Numbers of what is scaled, and what the bounds are called.
struct Scaled {
    rule: Rule,
    least: i32,
    replicas: i32,
    says: Bounds,
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    for (path, clique) in judged.cliques() {
        let Some(config) = &clique.spec.auto_scaling_config else { continue };
        let scaled = Scaled {
            rule: Rule::CliqueAutoScaling,
            least: clique.spec.min_available.unwrap_or_default(),
            replicas: clique.spec.replicas,
            says: CLIQUE_BOUNDS,
        };
        bounds(&path.field("spec").field("autoScalingConfig"), config, &scaled, found);
    }
    for (path, group) in judged.groups() {
        let Some(config) = &group.scale_config else { continue };
        let scaled = Scaled {
            rule: Rule::GroupAutoScaling,
            least: group.min_available(),
            replicas: group.replicas(),
            says: GROUP_BOUNDS,
        };
        bounds(&path.field("scaleConfig"), config, &scaled, found);
    }
    members(judged, found);
}

fn bounds(path: &FieldPath, config: &AutoScalingConfig, scaled: &Scaled, found: &mut Findings) {
    let min = config.min_replicas.unwrap_or(scaled.replicas);
    if min < scaled.least {
        found.invalid(scaled.rule, &path.field("minReplicas"), min, scaled.says.least);
    }
    let (most, path) = (config.max_replicas, path.field("maxReplicas"));
    if most < min {
        found.invalid(scaled.rule, &path, most, scaled.says.min);
    }
    if most < scaled.replicas {
        found.invalid(scaled.rule, &path, most, scaled.says.most);
    }
    if most == min {
        found.warn(&path, "equals minReplicas; the autoscaler has nothing to choose");
    }
}

fn members(judged: &Judged<'_>, found: &mut Findings) {
    for (path, group) in judged.groups() {
        for (at, name) in group.clique_names.iter().enumerate() {
            let scales = judged.clique(name).is_some_and(|clique| clique.spec.auto_scaling_config.is_some());
            if scales {
                let text = "AutoScalingConfig is not allowed to be defined for PodClique that is part of scaling group";
                found.invalid(Rule::MemberAutoScaling, &path.field("cliqueNames").item(at, name), name.as_str(), text);
            }
        }
    }
}
