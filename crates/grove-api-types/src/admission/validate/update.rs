//! What of a set stays as it was created.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::texts::{CLIQUES_CHANGE, GROUPS_CHANGE, IMMUTABLE};
use crate::admission::{FieldPath, Rule};
use crate::v1alpha1::{
    CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

pub(super) fn check<'a>(judged: &Judged<'a>, old: &'a PodCliqueSet, found: &mut Findings) {
    let before = &old.spec.template;
    template(judged.template(), before, found);
    cliques(judged, before, found);
    groups(judged, before, found);
}

fn is_kept<T: PartialEq + serde::Serialize>(path: &FieldPath, now: &T, before: &T, found: &mut Findings) {
    if now != before {
        let value = serde_json::to_value(now).unwrap_or(Value::Null);
        found.invalid(Rule::Immutable, path, value, IMMUTABLE);
    }
}

fn template(now: &PodCliqueSetTemplateSpec, before: &PodCliqueSetTemplateSpec, found: &mut Findings) {
    let path = template_path();
    is_kept(&path.field("cliqueStartupType"), &now.clique_startup_type, &before.clique_startup_type, found);
    is_kept(
        &path.field("resourceClaimTemplates"),
        &now.resource_claim_templates,
        &before.resource_claim_templates,
        found,
    );
    is_kept(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, found);
}

fn cliques<'a>(judged: &Judged<'a>, before: &'a PodCliqueSetTemplateSpec, found: &mut Findings) {
    let path = template_path().field("cliques");
    if judged.template().cliques.len() != before.cliques.len() {
        found.forbidden(Rule::CliqueComposition, &path, CLIQUES_CHANGE);
    }
    for (path, clique, stored) in judged.cliques_since(&before.cliques) {
        if let Some(before) = stored {
            same_clique(&path, clique, before, found);
        } else {
            let name = &clique.name;
            let text = format!("not allowed to change clique composition, new clique name '{name}' is not allowed");
            found.forbidden(Rule::CliqueComposition, &path.field("name"), text);
        }
    }
    order(judged.template(), before, found);
}

fn order(now: &PodCliqueSetTemplateSpec, before: &PodCliqueSetTemplateSpec, found: &mut Findings) {
    let path = template_path().field("cliques");
    match now.clique_startup_type {
        CliqueStartupType::AnyOrder => return,
        CliqueStartupType::InOrder | CliqueStartupType::Explicit => {}
    }
    // Where the cliques are not the same ones, that has been told.
    let names: BTreeSet<&str> = before.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let is_kept = |clique: &PodCliqueTemplateSpec| names.contains(clique.name.as_str());
    if now.cliques.len() != before.cliques.len() || !now.cliques.iter().all(is_kept) {
        return;
    }
    let mut pairs = before.cliques.iter().zip(&now.cliques).enumerate();
    if let Some((at, (expected, got))) = pairs.find(|(_, (before, now))| before.name != now.name) {
        let (expected, got) = (&expected.name, &got.name);
        let text = format!(
            "clique order cannot be changed when StartupType is InOrder or Explicit. Expected '{expected}' at position \
             {at}, got '{got}'"
        );
        found.invalid(Rule::CliqueOrder, &path, got.as_str(), text);
    }
}

fn same_clique(path: &FieldPath, now: &PodCliqueTemplateSpec, before: &PodCliqueTemplateSpec, found: &mut Findings) {
    let spec = path.field("spec");
    is_kept(&spec.field("roleName"), &now.spec.role_name, &before.spec.role_name, found);
    is_kept(&spec.field("minAvailable"), &now.spec.min_available, &before.spec.min_available, found);
    is_kept(&spec.field("startsAfter"), &now.spec.starts_after, &before.spec.starts_after, found);
    let scheduler = |clique: &PodCliqueTemplateSpec| {
        clique.spec.pod_spec.get("schedulerName").cloned().unwrap_or_else(|| json!(""))
    };
    is_kept(&spec.field("podSpec").field("schedulerName"), &scheduler(now), &scheduler(before), found);
    is_kept(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, found);
    let names = path.field("resourceClaimTemplateNames");
    is_kept(&names, &now.resource_claim_template_names, &before.resource_claim_template_names, found);
}

fn groups<'a>(judged: &Judged<'a>, before: &'a PodCliqueSetTemplateSpec, found: &mut Findings) {
    let before = &before.pod_clique_scaling_groups;
    if judged.template().pod_clique_scaling_groups.len() != before.len() {
        let path = template_path().field("podCliqueScalingGroups");
        found.forbidden(Rule::GroupComposition, &path, GROUPS_CHANGE);
    }
    for (path, group, stored) in judged.groups_since(before) {
        if let Some(before) = stored {
            same_group(&path, group, before, found);
        } else {
            let name = &group.name;
            let text = format!(
                "not allowed to change scaling group composition, new scaling group name '{name}' is not allowed"
            );
            found.forbidden(Rule::GroupComposition, &path.field("name"), text);
        }
    }
}

fn same_group(
    path: &FieldPath,
    now: &PodCliqueScalingGroupConfig,
    before: &PodCliqueScalingGroupConfig,
    found: &mut Findings,
) {
    is_kept(&path.field("cliqueNames"), &now.clique_names, &before.clique_names, found);
    is_kept(&path.field("minAvailable"), &now.min_available(), &before.min_available(), found);
    is_kept(&path.field("resourceSharing"), &now.resource_sharing, &before.resource_sharing, found);
    let configs = path.field("resourceClaimTemplateConfigs");
    is_kept(&configs, &now.resource_claim_template_configs, &before.resource_claim_template_configs, found);
}
