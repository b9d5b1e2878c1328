//! Claims that pods share: the templates, who shares, and how many pods one claim can serve.

use std::collections::BTreeSet;

use super::{Judged, template_path};
use crate::admission::Rule;
use crate::admission::verdict::{FieldPath, Findings};
use crate::core::{
    PodCliqueScalingGroupConfig, PodCliqueTemplateSpec, ResourceClaimTemplateConfig, ResourceSharingScope,
};
use crate::sharing::{self, Share};

/// For so many pods Kubernetes reserves one claim.
const MOST_PODS: i64 = 256;

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    templates(judged, found);
    let internal: BTreeSet<&str> =
        judged.template().resource_claim_templates.iter().map(|template| template.name.as_str()).collect();
    let set = sharing::of_set(judged.template());
    references(&template_path(), &set, &internal, found);
    filters_of_set(judged, found);
    crowds(&template_path(), &set, |share| pods_of_set(judged, share), found);
    for (path, group) in judged.groups() {
        let shares = sharing::of_group(group);
        references(&path, &shares, &internal, found);
        filters_of_group(&path, group, found);
        let pods = |share: &Share<'_>| {
            let members = group.clique_names.iter().filter(|name| share.reaches(name, None));
            let per_replica: i64 = members.filter_map(|name| judged.clique(name)).map(pods_of_clique).sum();
            match share.scope {
                ResourceSharingScope::AllReplicas => per_replica * most_replicas(group),
                ResourceSharingScope::PerReplica => per_replica,
            }
        };
        crowds(&path, &shares, pods, found);
    }
    for (path, clique) in judged.cliques() {
        let shares = sharing::of_clique(clique);
        references(&path, &shares, &internal, found);
        let pods = |share: &Share<'_>| match share.scope {
            ResourceSharingScope::AllReplicas => pods_of_clique(clique),
            ResourceSharingScope::PerReplica => 1,
        };
        crowds(&path, &shares, pods, found);
    }
}

fn templates(judged: &Judged<'_>, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let path = template_path().field("resourceClaimTemplates");
    for (at, template) in judged.template().resource_claim_templates.iter().enumerate() {
        let path = path.item(at, &template.name);
        let name = path.field("name");
        if template.name.trim().is_empty() {
            found.required(Rule::ClaimTemplate, &name, "template name is required");
        } else if !names.insert(&template.name) {
            found.duplicate(Rule::ClaimTemplate, &name, template.name.as_str());
        }
        if !asks_for_devices(template) {
            let path = path.field("templateSpec.spec.devices.requests");
            found.required(Rule::ClaimTemplate, &path, "at least one device request is required");
        }
    }
}

fn asks_for_devices(template: &ResourceClaimTemplateConfig) -> bool {
    let requests = template.template_spec.get("spec").and_then(|spec| spec.get("devices")?.get("requests")?.as_array());
    requests.is_some_and(|requests| !requests.is_empty())
}

/// The templates that one level shares: named, each once, with a namespace only where it means something.
fn references(path: &FieldPath, shares: &[Share<'_>], internal: &BTreeSet<&str>, found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for share in shares {
        let field = path.field(&share.field);
        if share.template.trim().is_empty() {
            found.required(Rule::SharedTemplate, &field, "reference name is required");
            continue;
        }
        if !seen.insert(share.template) {
            found.duplicate(Rule::SharedTemplate, &field, share.template);
        }
        let is_internal = internal.contains(share.template);
        if let (true, Some(namespace)) = (is_internal, share.namespace) {
            let text = "namespace must be empty when name matches an internal resourceClaimTemplate";
            let entry = share.field.strip_suffix(".name").unwrap_or(&share.field);
            found.invalid(Rule::SharedNamespace, &path.field(entry).field("namespace"), namespace, text);
        }
        if is_internal && share.is_short {
            let text = "means a ResourceClaimTemplate in the namespace, not the template of this name within the set";
            found.warn(&field, text);
        }
    }
}

fn filters_of_set(judged: &Judged<'_>, found: &mut Findings) {
    let path = template_path().field("resourceSharing");
    let groups = &judged.template().pod_clique_scaling_groups;
    for (at, spec) in judged.template().resource_sharing.iter().enumerate() {
        let Some(filter) = &spec.filter else { continue };
        let path = path.item(at, &spec.name).field("filter");
        if filter.child_clique_names.is_empty() && filter.child_scaling_group_names.is_empty() {
            let text = "filter must specify at least one childCliqueNames or childScalingGroupNames entry";
            found.required(Rule::SharingFilter, &path, text);
        }
        listed(
            &path.field("childCliqueNames"),
            &filter.child_clique_names,
            |name| judged.clique(name).is_some(),
            found,
        );
        let is_group = |name: &str| groups.iter().any(|group| group.name == name);
        listed(&path.field("childScalingGroupNames"), &filter.child_scaling_group_names, is_group, found);
    }
}

fn filters_of_group(path: &FieldPath, group: &PodCliqueScalingGroupConfig, found: &mut Findings) {
    let is_member = |name: &str| group.clique_names.iter().any(|member| member == name);
    for (at, spec) in group.resource_sharing.iter().enumerate() {
        let Some(filter) = &spec.filter else { continue };
        let path = path.field("resourceSharing").item(at, &spec.name).field("filter");
        if filter.child_clique_names.is_empty() {
            let text = "filter must specify at least one childCliqueNames entry";
            found.required(Rule::SharingFilter, &path, text);
        }
        listed(&path.field("childCliqueNames"), &filter.child_clique_names, is_member, found);
    }
    for (at, config) in group.resource_claim_template_configs.iter().enumerate() {
        let path = path.field("resourceClaimTemplateConfigs").item(at, &config.names.join(","));
        if config.names.is_empty() {
            found.required(Rule::SharedTemplate, &path.field("names"), "name at least one ResourceClaimTemplate");
        }
        listed(&path.field("cliqueNames"), &config.clique_names, is_member, found);
    }
}

fn listed(path: &FieldPath, names: &[String], exists: impl Fn(&str) -> bool, found: &mut Findings) {
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !exists(name)) {
        found.not_found(Rule::SharingFilter, &path.item(at, name), name.as_str());
    }
}

/// Warns of claims that more pods share than can.
fn crowds(path: &FieldPath, shares: &[Share<'_>], pods: impl Fn(&Share<'_>) -> i64, found: &mut Findings) {
    for share in shares {
        let pods = pods(share);
        if pods > MOST_PODS {
            let text = format!("up to {pods} pods would share one claim, and Kubernetes reserves it for {MOST_PODS}");
            found.warn(&path.field(&share.field), text);
        }
    }
}

fn pods_of_set(judged: &Judged<'_>, share: &Share<'_>) -> i64 {
    let pods = |clique: &PodCliqueTemplateSpec| {
        let group = judged.group_of(&clique.name);
        let reaches = share.reaches(&clique.name, group.map(|group| group.name.as_str()));
        let times = group.map_or(1, most_replicas);
        if reaches { pods_of_clique(clique).saturating_mul(times) } else { 0 }
    };
    let per_replica = judged.template().cliques.iter().map(pods).fold(0_i64, i64::saturating_add);
    match share.scope {
        ResourceSharingScope::AllReplicas => per_replica.saturating_mul(judged.set.spec.replicas.into()),
        ResourceSharingScope::PerReplica => per_replica,
    }
}

fn pods_of_clique(clique: &PodCliqueTemplateSpec) -> i64 {
    let most = clique.spec.auto_scaling_config.as_ref().map_or(0, |scale| scale.max_replicas);
    clique.spec.replicas.max(most).into()
}

fn most_replicas(group: &PodCliqueScalingGroupConfig) -> i64 {
    group.scale_config.as_ref().map_or(0, |scale| scale.max_replicas).max(group.replicas()).into()
}
