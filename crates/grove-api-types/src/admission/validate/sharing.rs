//! Claims that pods share: the templates, who shares, and how many pods one claim can serve.

use std::collections::{BTreeMap, BTreeSet};

use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::texts::{NO_FILTER, NO_SHARED_NAME};
use crate::admission::{FieldPath, Rule};
use crate::resource_sharing::{self, SharedClaim};
use crate::syntax::LONGEST_NAME;
use crate::v1alpha1::{
    PodCliqueScalingGroupConfig, PodCliqueTemplateSpec, ResourceClaimTemplateConfig, ResourceSharingScope,
};

/// For so many pods Kubernetes reserves one claim.
const MOST_PODS: i64 = 256;

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    templates(judged, found);
    let internal: BTreeSet<&str> =
        judged.template().resource_claim_templates.iter().map(|template| template.name.as_str()).collect();
    let set = resource_sharing::of_set(judged.template());
    references(&template_path(), &set, &internal, found);
    filters_of_set(judged, found);
    let crowd = Crowd::new(judged);
    crowds(&template_path(), &set, |share| crowd.of_set(share), found);
    for (path, group) in judged.groups() {
        let shares = resource_sharing::of_group(group);
        references(&path, &shares, &internal, found);
        filters_of_group(&path, group, found);
        crowds(&path, &shares, |share| crowd.of_group(group, share), found);
    }
    for (path, clique) in judged.cliques() {
        let shares = resource_sharing::of_clique(clique);
        references(&path, &shares, &internal, found);
        let pods = |share: &SharedClaim<'_>| match share.scope {
            ResourceSharingScope::AllReplicas => pods_of_clique(clique),
            ResourceSharingScope::PerReplica => 1,
        };
        crowds(&path, &shares, pods, found);
    }
}

fn templates(judged: &Judged<'_>, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let path = template_path().field("resourceClaimTemplates");
    let referred = referred(judged);
    for (at, template) in judged.template().resource_claim_templates.iter().enumerate() {
        let path = path.item(at, &template.name);
        let name = path.field("name");
        let is_new = names.insert(&template.name);
        if template.name.trim().is_empty() {
            found.required(Rule::ClaimTemplate, &name, "template name is required");
        } else if !is_new {
            found.duplicate(Rule::ClaimTemplate, &name, template.name.as_str());
        } else if !referred.contains(template.name.as_str()) {
            found.warn(&name, "nobody shares claims of this template; refer to it in resourceSharing");
        }
        if !asks_for_devices(template) {
            let path = path.field("templateSpec.spec.devices.requests");
            found.required(Rule::ClaimTemplate, &path, "at least one device request is required");
        }
    }
}

/// The templates that some level shares. A short form means another one of the name, and has a warning of its own.
fn referred<'a>(judged: &Judged<'a>) -> BTreeSet<&'a str> {
    let template = judged.template();
    let of_set = resource_sharing::of_set(template).into_iter();
    let of_groups = template.pod_clique_scaling_groups.iter().flat_map(resource_sharing::of_group);
    let of_cliques = template.cliques.iter().flat_map(resource_sharing::of_clique);
    of_set.chain(of_groups).chain(of_cliques).map(|share| share.template).collect()
}

fn asks_for_devices(template: &ResourceClaimTemplateConfig) -> bool {
    let requests = template.template_spec.get("spec").and_then(|spec| spec.get("devices")?.get("requests")?.as_array());
    requests.is_some_and(|requests| !requests.is_empty())
}

/// The templates that one level shares: named, each once, with a namespace only where it means something.
fn references(path: &FieldPath, shares: &[SharedClaim<'_>], internal: &BTreeSet<&str>, found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for share in shares {
        let field = path.key(&share.field);
        if share.template.trim().is_empty() {
            found.required(Rule::SharedTemplate, &field, NO_SHARED_NAME);
            continue;
        }
        if !seen.insert(share.template) {
            found.duplicate(Rule::SharedTemplate, &field, share.template);
        }
        let is_internal = internal.contains(share.template);
        if let (true, Some(namespace)) = (is_internal, share.namespace) {
            let text = "namespace must be empty when name matches an internal resourceClaimTemplate";
            let entry = share.field.strip_suffix(".name").unwrap_or(&share.field);
            found.invalid(Rule::SharedNamespace, &path.key(entry).field("namespace"), namespace, text);
        }
        if is_internal && share.is_short {
            let text = "means a ResourceClaimTemplate in the namespace, not the template of this name within the set";
            found.warn(&field, text);
        }
    }
}

fn filters_of_set(judged: &Judged<'_>, found: &mut Findings) {
    let path = template_path().field("resourceSharing");
    let groups: BTreeSet<&str> =
        judged.template().pod_clique_scaling_groups.iter().map(|group| group.name.as_str()).collect();
    for (at, spec) in judged.template().resource_sharing.iter().enumerate() {
        let Some(filter) = &spec.filter else { continue };
        let path = path.item(at, &spec.name).field("filter");
        if filter.child_clique_names.is_empty() && filter.child_scaling_group_names.is_empty() {
            found.required(Rule::SharingFilter, &path, NO_FILTER);
        }
        listed(
            &path.field("childCliqueNames"),
            &filter.child_clique_names,
            |name| judged.clique(name).is_some(),
            found,
        );
        let is_group = |name: &str| groups.contains(name);
        listed(&path.field("childScalingGroupNames"), &filter.child_scaling_group_names, is_group, found);
    }
}

fn filters_of_group(path: &FieldPath, group: &PodCliqueScalingGroupConfig, found: &mut Findings) {
    let members: BTreeSet<&str> = group.clique_names.iter().map(String::as_str).collect();
    let is_member = |name: &str| members.contains(name);
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
fn crowds(path: &FieldPath, shares: &[SharedClaim<'_>], pods: impl Fn(&SharedClaim<'_>) -> i64, found: &mut Findings) {
    for share in shares {
        let pods = pods(share);
        if pods > MOST_PODS {
            let text = format!("up to {pods} pods would share one claim, and Kubernetes reserves it for {MOST_PODS}");
            found.warn(&path.key(&share.field), text);
        }
    }
}

/// How many pods there may come to be, for counting those who share.
struct Crowd<'a> {
    judged: &'a Judged<'a>,
    /// All pods of a replica of the set.
    all: i64,
    /// The pods of each scaling group in a replica of the set.
    of_groups: BTreeMap<&'a str, i64>,
}

impl<'a> Crowd<'a> {
    fn new(judged: &'a Judged<'a>) -> Self {
        let mut crowd = Self { judged, all: 0, of_groups: BTreeMap::new() };
        for clique in &judged.template().cliques {
            let pods = crowd.of_clique(clique);
            crowd.all = crowd.all.saturating_add(pods);
            if let Some(group) = judged.group_of(&clique.name).filter(|group| group.name.len() <= LONGEST_NAME) {
                let of_group = crowd.of_groups.entry(group.name.as_str()).or_default();
                *of_group = of_group.saturating_add(pods);
            }
        }
        crowd
    }

    /// The pods of a clique in a replica of the set.
    fn of_clique(&self, clique: &PodCliqueTemplateSpec) -> i64 {
        let times = self.judged.group_of(&clique.name).map_or(1, most_replicas);
        pods_of_clique(clique).saturating_mul(times)
    }

    /// The pods that share a claim of the set.
    fn of_set(&self, share: &SharedClaim<'_>) -> i64 {
        let per_replica = if share.cliques.is_empty() && share.groups.is_empty() {
            self.all
        } else {
            let groups: BTreeSet<&str> = share.groups.iter().map(String::as_str).collect();
            let cliques: BTreeSet<&str> = share.cliques.iter().map(String::as_str).collect();
            let is_in_group = |clique: &str| self.judged.group_of(clique).is_some_and(|it| groups.contains(&*it.name));
            let cliques = cliques.into_iter().filter(|clique| !is_in_group(clique));
            let cliques = cliques.filter_map(|clique| self.judged.clique(clique)).map(|clique| self.of_clique(clique));
            let of_groups = groups.iter().filter_map(|group| self.of_groups.get(group).copied());
            cliques.chain(of_groups).fold(0, i64::saturating_add)
        };
        match share.scope {
            ResourceSharingScope::AllReplicas => per_replica.saturating_mul(self.judged.set.spec.replicas.into()),
            ResourceSharingScope::PerReplica => per_replica,
        }
    }

    /// The pods that share a claim of a scaling group.
    fn of_group(&self, group: &PodCliqueScalingGroupConfig, share: &SharedClaim<'_>) -> i64 {
        let is_member = |clique: &str| self.judged.group_of(clique).is_some_and(|it| it.name == group.name);
        let all_replicas = if share.cliques.is_empty() {
            self.of_groups.get(group.name.as_str()).copied().unwrap_or_default()
        } else {
            let cliques: BTreeSet<&str> = share.cliques.iter().map(String::as_str).collect();
            let cliques = cliques.into_iter().filter(|clique| is_member(clique));
            let cliques = cliques.filter_map(|clique| self.judged.clique(clique)).map(|clique| self.of_clique(clique));
            cliques.fold(0, i64::saturating_add)
        };
        match share.scope {
            ResourceSharingScope::AllReplicas => all_replicas,
            ResourceSharingScope::PerReplica => all_replicas / most_replicas(group).max(1),
        }
    }
}

fn pods_of_clique(clique: &PodCliqueTemplateSpec) -> i64 {
    let most = clique.spec.auto_scaling_config.as_ref().map_or(0, |scale| scale.max_replicas);
    clique.spec.replicas.max(most).into()
}

fn most_replicas(group: &PodCliqueScalingGroupConfig) -> i64 {
    group.scale_config.as_ref().map_or(0, |scale| scale.max_replicas).max(group.replicas()).into()
}
