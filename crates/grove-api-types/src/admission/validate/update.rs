//! The fields of a set that are immutable.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ValidationContext, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::{CLIQUES_CHANGED, GROUPS_CHANGED, IMMUTABLE};
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::{
    CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

pub(super) fn check<'a>(context: &ValidationContext<'a>, old: &'a PodCliqueSet, errors: &mut ErrorCollector) {
    let before = &old.spec.template;
    check_template(context.template(), before, errors);
    check_cliques(context, before, errors);
    check_groups(context, before, errors);
}

fn check_unchanged<T: PartialEq + serde::Serialize>(
    path: &FieldPath,
    now: &T,
    before: &T,
    errors: &mut ErrorCollector,
) {
    if now != before {
        reject_change(path, now, errors);
    }
}

fn reject_change<T: serde::Serialize>(path: &FieldPath, now: &T, errors: &mut ErrorCollector) {
    let value = serde_json::to_value(now).unwrap_or(Value::Null);
    errors.invalid(Rule::Immutable, path, value, IMMUTABLE);
}

fn check_template(now: &PodCliqueSetTemplateSpec, before: &PodCliqueSetTemplateSpec, errors: &mut ErrorCollector) {
    let path = template_path();
    check_unchanged(&path.field("cliqueStartupType"), &now.clique_startup_type, &before.clique_startup_type, errors);
    if !names_and_specs(now).eq(names_and_specs(before)) {
        reject_change(&path.field("resourceClaimTemplates"), &now.resource_claim_templates, errors);
    }
    check_unchanged(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, errors);
}

/// The immutable part of the claim templates. Their metadata may change: the CRD of the Go operator drops it, so the manifest of an older set
/// may add it.
fn names_and_specs(of: &PodCliqueSetTemplateSpec) -> impl Iterator<Item = (&str, Option<Value>)> {
    let templates = of.resource_claim_templates.iter();
    templates.map(|template| (template.name.as_str(), template.template_spec.get("spec")))
}

fn check_cliques<'a>(
    context: &ValidationContext<'a>,
    before: &'a PodCliqueSetTemplateSpec,
    errors: &mut ErrorCollector,
) {
    let path = template_path().field("cliques");
    if context.template().cliques.len() != before.cliques.len() {
        errors.forbidden(Rule::CliqueComposition, &path, CLIQUES_CHANGED);
    }
    for (path, clique, stored) in context.cliques_with_old(&before.cliques) {
        if let Some(before) = stored {
            check_clique(&path, clique, before, errors);
        } else {
            let name = &clique.name;
            let text = format!("not allowed to change clique composition, new clique name '{name}' is not allowed");
            errors.forbidden(Rule::CliqueComposition, &path.field("name"), text);
        }
    }
    check_order(context.template(), before, errors);
}

fn check_order(now: &PodCliqueSetTemplateSpec, before: &PodCliqueSetTemplateSpec, errors: &mut ErrorCollector) {
    let path = template_path().field("cliques");
    match now.clique_startup_type {
        CliqueStartupType::AnyOrder => return,
        CliqueStartupType::InOrder | CliqueStartupType::Explicit => {}
    }
    // `check_cliques` reports a change of the composition.
    let names: BTreeSet<&str> = before.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let is_known = |clique: &PodCliqueTemplateSpec| names.contains(clique.name.as_str());
    if now.cliques.len() != before.cliques.len() || !now.cliques.iter().all(is_known) {
        return;
    }
    let mut pairs = before.cliques.iter().zip(&now.cliques).enumerate();
    if let Some((at, (expected, got))) = pairs.find(|(_, (before, now))| before.name != now.name) {
        let (expected, got) = (&expected.name, &got.name);
        let text = format!(
            "clique order cannot be changed when StartupType is InOrder or Explicit. Expected '{expected}' at position \
             {at}, got '{got}'"
        );
        errors.invalid(Rule::CliqueOrder, &path, got.as_str(), text);
    }
}

fn check_clique(
    path: &FieldPath,
    now: &PodCliqueTemplateSpec,
    before: &PodCliqueTemplateSpec,
    errors: &mut ErrorCollector,
) {
    let spec = path.field("spec");
    check_unchanged(&spec.field("roleName"), &now.spec.role_name, &before.spec.role_name, errors);
    check_unchanged(&spec.field("minAvailable"), &now.spec.min_available, &before.spec.min_available, errors);
    check_unchanged(&spec.field("startsAfter"), &now.spec.starts_after, &before.spec.starts_after, errors);
    let scheduler =
        |clique: &PodCliqueTemplateSpec| clique.spec.pod_spec.get("schedulerName").unwrap_or_else(|| json!(""));
    check_unchanged(&spec.field("podSpec").field("schedulerName"), &scheduler(now), &scheduler(before), errors);
    check_unchanged(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, errors);
    let names = path.field("resourceClaimTemplateNames");
    check_unchanged(&names, &now.resource_claim_template_names, &before.resource_claim_template_names, errors);
}

fn check_groups<'a>(
    context: &ValidationContext<'a>,
    before: &'a PodCliqueSetTemplateSpec,
    errors: &mut ErrorCollector,
) {
    let before = &before.pod_clique_scaling_groups;
    if context.template().pod_clique_scaling_groups.len() != before.len() {
        let path = template_path().field("podCliqueScalingGroups");
        errors.forbidden(Rule::GroupComposition, &path, GROUPS_CHANGED);
    }
    for (path, group, stored) in context.groups_with_old(before) {
        if let Some(before) = stored {
            check_group(&path, group, before, errors);
        } else {
            let name = &group.name;
            let text = format!(
                "not allowed to change scaling group composition, new scaling group name '{name}' is not allowed"
            );
            errors.forbidden(Rule::GroupComposition, &path.field("name"), text);
        }
    }
}

fn check_group(
    path: &FieldPath,
    now: &PodCliqueScalingGroupConfig,
    before: &PodCliqueScalingGroupConfig,
    errors: &mut ErrorCollector,
) {
    check_unchanged(&path.field("cliqueNames"), &now.clique_names, &before.clique_names, errors);
    check_unchanged(&path.field("minAvailable"), &now.min_available(), &before.min_available(), errors);
    check_unchanged(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, errors);
    let configs = path.field("resourceClaimTemplateConfigs");
    check_unchanged(&configs, &now.resource_claim_template_configs, &before.resource_claim_template_configs, errors);
}
