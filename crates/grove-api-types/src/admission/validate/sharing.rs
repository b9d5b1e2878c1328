//! Resource sharing: claim templates, references to them, filters, and the number of pods that share one claim.

use std::collections::{BTreeMap, BTreeSet};

use super::metadata::{MAX_ANNOTATION_BYTES, annotation_bytes, check_annotations, check_labels};
use super::{ValidationContext, template_path};
use crate::admission::error_collector::{ErrorCollector, ExceededLimit};
use crate::admission::field_path::fingerprint;
use crate::admission::messages::{EMPTY_FILTER, EMPTY_REFERENCE_NAME};
use crate::admission::{FieldPath, Rule};
use crate::resource_claim::ClaimTemplate;
use crate::resource_sharing::claim::{is_own_label, is_reserved_key};
use crate::resource_sharing::{self, MAX_REFERENCES, SharedClaim};
use crate::syntax::MAX_NAME_LENGTH;
use crate::v1alpha1::{
    PodCliqueScalingGroupConfig, PodCliqueTemplateSpec, ResourceClaimTemplateConfig, ResourceSharingScope,
};

/// The largest number of pods for which Kubernetes reserves one claim.
const MAX_PODS: i64 = 256;
/// What a claim adds to the annotation of a `PodClique` beside its template: names and the field of the set.
const BYTES_PER_CLAIM: usize = 1024;

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    check_templates(context, errors);
    let internal = template_bytes(context);
    let set = resource_sharing::of_set(context.template());
    check_references(&template_path(), &set, &internal, errors);
    check_set_filters(context, errors);
    let pod_counts = PodCounts::new(context);
    check_pod_counts(&template_path(), &set, |share| pod_counts.of_set(share), errors);
    for (path, group) in context.groups() {
        let shares = resource_sharing::of_group(group);
        check_references(&path, &shares, &internal, errors);
        check_group_filters(&path, group, errors);
        check_pod_counts(&path, &shares, |share| pod_counts.of_group(group, share), errors);
    }
    for (path, clique) in context.cliques() {
        let shares = resource_sharing::of_clique(clique);
        check_references(&path, &shares, &internal, errors);
        let pods = |share: &SharedClaim<'_>| match share.scope {
            ResourceSharingScope::AllReplicas => pods_of_clique(clique),
            ResourceSharingScope::PerReplica => 1,
        };
        check_pod_counts(&path, &shares, pods, errors);
        check_size(&path, clique, &shares, &internal, errors);
    }
}

/// The templates of the set with the lengths of their content as JSON.
fn template_bytes<'a>(context: &ValidationContext<'a>) -> BTreeMap<&'a str, usize> {
    let bytes = |template: &ResourceClaimTemplateConfig| {
        serde_json::to_string(&template.template_spec).unwrap_or_default().len()
    };
    let templates = context.template().resource_claim_templates.iter();
    templates.map(|template| (template.name.as_str(), bytes(template))).collect()
}

fn check_templates(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let mut names = BTreeSet::new();
    let path = template_path().field("resourceClaimTemplates");
    let referenced = referenced_templates(context);
    for (at, template) in context.template().resource_claim_templates.iter().enumerate() {
        let path = path.item(at, &template.name);
        let name = path.field("name");
        let is_new = names.insert(&template.name);
        if template.name.trim().is_empty() {
            errors.required(Rule::ClaimTemplate, &name, "template name is required");
        } else if !is_new {
            errors.duplicate(Rule::ClaimTemplate, &name, template.name.as_str());
        } else if !referenced.contains(template.name.as_str()) {
            errors.warn(&name, "no resourceSharing refers to this template");
        }
        if !requests_devices(template) {
            let path = path.field("templateSpec.spec.devices.requests");
            errors.required(Rule::ClaimTemplate, &path, "at least one device request is required");
        }
        check_metadata(&path.field("templateSpec.metadata"), template, errors);
    }
}

fn check_metadata(path: &FieldPath, template: &ResourceClaimTemplateConfig, errors: &mut ErrorCollector) {
    let rule = Rule::ClaimTemplateMetadata;
    let ClaimTemplate { labels, annotations, .. } = ClaimTemplate::from(&template.template_spec);
    let (label_path, annotation_path) = (path.field("labels"), path.field("annotations"));
    check_labels(rule, &label_path, &labels, errors);
    check_annotations(rule, &annotation_path, &annotations, errors);
    let labels = labels.keys().filter(|key| is_own_label(key)).map(|key| label_path.key(key));
    let annotations = annotations.keys().filter(|key| is_reserved_key(key)).map(|key| annotation_path.key(key));
    for path in labels.chain(annotations) {
        errors.warn(&path, "is reserved for Grove; claims do not get this value");
    }
}

/// A `PodClique` contains the templates of its own claims in an annotation.
fn check_size(
    path: &FieldPath,
    clique: &PodCliqueTemplateSpec,
    shares: &[SharedClaim<'_>],
    internal: &BTreeMap<&str, usize>,
    errors: &mut ErrorCollector,
) {
    let templates = shares.iter().filter(|share| !share.is_short).filter_map(|share| internal.get(share.template));
    let own: usize = templates.map(|bytes| bytes + BYTES_PER_CLAIM).sum();
    let all = own + annotation_bytes(&clique.annotations);
    if own > 0 && all > MAX_ANNOTATION_BYTES {
        let text = format!(
            "the templates and the annotations of the clique have {all} bytes, and an object has at most \
             {MAX_ANNOTATION_BYTES} bytes of annotations; shorten the templates, or create ResourceClaimTemplates"
        );
        errors.forbidden(Rule::ClaimTemplateSize, &path.field("resourceSharing"), text);
    }
}

/// The templates to which any level refers. A short form refers to an object outside the set; another check warns about it.
fn referenced_templates<'a>(context: &ValidationContext<'a>) -> BTreeSet<&'a str> {
    let template = context.template();
    let of_set = resource_sharing::of_set(template).into_iter();
    let of_groups = template.pod_clique_scaling_groups.iter().flat_map(resource_sharing::of_group);
    let of_cliques = template.cliques.iter().flat_map(resource_sharing::of_clique);
    of_set.chain(of_groups).chain(of_cliques).map(|share| share.template).collect()
}

fn requests_devices(template: &ResourceClaimTemplateConfig) -> bool {
    let spec = template.template_spec.get("spec");
    let requests = spec.as_ref().and_then(|spec| spec.get("devices")?.get("requests")?.as_array());
    requests.is_some_and(|requests| !requests.is_empty())
}

/// A level has not too many references, each reference has a name, each template is shared once, and an internal template has no namespace.
fn check_references(
    path: &FieldPath,
    shares: &[SharedClaim<'_>],
    internal: &BTreeMap<&str, usize>,
    errors: &mut ErrorCollector,
) {
    check_reference_count(path, shares, errors);
    let mut seen = BTreeSet::new();
    for share in shares {
        let field = path.key(&share.field);
        if share.template.trim().is_empty() {
            errors.required(Rule::SharedTemplate, &field, EMPTY_REFERENCE_NAME);
            continue;
        }
        if !seen.insert(share.template) {
            errors.duplicate(Rule::SharedTemplate, &field, share.template);
        }
        let is_internal = internal.contains_key(share.template);
        if let (true, Some(namespace)) = (is_internal, share.namespace) {
            let text = "namespace must be empty when name matches an internal resourceClaimTemplate";
            let entry = share.field.strip_suffix(".name").unwrap_or(&share.field);
            errors.invalid(Rule::SharedNamespace, &path.key(entry).field("namespace"), namespace, text);
        }
        if is_internal && share.is_short {
            let text =
                "refers to a ResourceClaimTemplate in the namespace, not to the template of this name in the set";
            errors.warn(&field, text);
        }
    }
}

fn check_reference_count(path: &FieldPath, shares: &[SharedClaim<'_>], errors: &mut ErrorCollector) {
    let Some(first_surplus) = shares.get(MAX_REFERENCES) else { return };
    let count = shares.len();
    let limit = fingerprint((Rule::SharedTemplateCount.name(), path.fingerprint()));
    let excess = ExceededLimit { limit, amount: u64::try_from(count).unwrap_or(u64::MAX) };
    let text = format!(
        "this is one of {count} claim templates, and a set, a scaling group and a clique may each share at most {MAX_REFERENCES}; request \
         the devices of several templates in one"
    );
    errors.exceeds((Rule::SharedTemplateCount, &path.key(&first_surplus.field)), first_surplus.template, excess, text);
}

fn check_set_filters(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let path = template_path().field("resourceSharing");
    let groups: BTreeSet<&str> =
        context.template().pod_clique_scaling_groups.iter().map(|group| group.name.as_str()).collect();
    for (at, spec) in context.template().resource_sharing.iter().enumerate() {
        let Some(filter) = &spec.filter else { continue };
        let path = path.item(at, &spec.name).field("filter");
        if filter.child_clique_names.is_empty() && filter.child_scaling_group_names.is_empty() {
            errors.required(Rule::SharingFilter, &path, EMPTY_FILTER);
        }
        check_names_exist(
            &path.field("childCliqueNames"),
            &filter.child_clique_names,
            |name| context.clique(name).is_some(),
            errors,
        );
        let is_group = |name: &str| groups.contains(name);
        check_names_exist(&path.field("childScalingGroupNames"), &filter.child_scaling_group_names, is_group, errors);
    }
}

fn check_group_filters(path: &FieldPath, group: &PodCliqueScalingGroupConfig, errors: &mut ErrorCollector) {
    let members: BTreeSet<&str> = group.clique_names.iter().map(String::as_str).collect();
    let is_member = |name: &str| members.contains(name);
    for (at, spec) in group.resource_sharing.iter().enumerate() {
        let Some(filter) = &spec.filter else { continue };
        let path = path.field("resourceSharing").item(at, &spec.name).field("filter");
        if filter.child_clique_names.is_empty() {
            let text = "filter must specify at least one childCliqueNames entry";
            errors.required(Rule::SharingFilter, &path, text);
        }
        check_names_exist(&path.field("childCliqueNames"), &filter.child_clique_names, is_member, errors);
    }
    for (at, config) in group.resource_claim_template_configs.iter().enumerate() {
        let path = path.field("resourceClaimTemplateConfigs").item(at, &config.names.join(","));
        if config.names.is_empty() {
            errors.required(
                Rule::SharedTemplate,
                &path.field("names"),
                "must contain at least one ResourceClaimTemplate name",
            );
        }
        check_names_exist(&path.field("cliqueNames"), &config.clique_names, is_member, errors);
    }
}

fn check_names_exist(path: &FieldPath, names: &[String], exists: impl Fn(&str) -> bool, errors: &mut ErrorCollector) {
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !exists(name)) {
        errors.not_found(Rule::SharingFilter, &path.item(at, name), name.as_str());
    }
}

/// Warns about a claim that more pods share than Kubernetes reserves it for.
fn check_pod_counts(
    path: &FieldPath,
    shares: &[SharedClaim<'_>],
    pods: impl Fn(&SharedClaim<'_>) -> i64,
    errors: &mut ErrorCollector,
) {
    for share in shares {
        let pods = pods(share);
        if pods > MAX_PODS {
            let text =
                format!("up to {pods} pods would share one claim; Kubernetes reserves a claim for at most {MAX_PODS}");
            errors.warn(&path.key(&share.field), text);
        }
    }
}

/// The largest numbers of pods that the set can have.
struct PodCounts<'a> {
    context: &'a ValidationContext<'a>,
    /// All pods of a replica of the set.
    all: i64,
    /// The pods of each scaling group in a replica of the set.
    of_groups: BTreeMap<&'a str, i64>,
}

impl<'a> PodCounts<'a> {
    fn new(context: &'a ValidationContext<'a>) -> Self {
        let mut counts = Self { context, all: 0, of_groups: BTreeMap::new() };
        for clique in &context.template().cliques {
            let pods = counts.of_clique(clique);
            counts.all = counts.all.saturating_add(pods);
            if let Some(group) = context.group_of(&clique.name).filter(|group| group.name.len() <= MAX_NAME_LENGTH) {
                let of_group = counts.of_groups.entry(group.name.as_str()).or_default();
                *of_group = of_group.saturating_add(pods);
            }
        }
        counts
    }

    /// The pods of a clique in a replica of the set.
    fn of_clique(&self, clique: &PodCliqueTemplateSpec) -> i64 {
        let times = self.context.group_of(&clique.name).map_or(1, max_replicas);
        pods_of_clique(clique).saturating_mul(times)
    }

    /// The pods that share a claim of the set.
    fn of_set(&self, share: &SharedClaim<'_>) -> i64 {
        let per_replica = if share.cliques.is_empty() && share.groups.is_empty() {
            self.all
        } else {
            let groups: BTreeSet<&str> = share.groups.iter().map(String::as_str).collect();
            let cliques: BTreeSet<&str> = share.cliques.iter().map(String::as_str).collect();
            let is_in_group = |clique: &str| self.context.group_of(clique).is_some_and(|it| groups.contains(&*it.name));
            let cliques = cliques.into_iter().filter(|clique| !is_in_group(clique));
            let cliques = cliques.filter_map(|clique| self.context.clique(clique)).map(|clique| self.of_clique(clique));
            let of_groups = groups.iter().filter_map(|group| self.of_groups.get(group).copied());
            cliques.chain(of_groups).fold(0, i64::saturating_add)
        };
        match share.scope {
            ResourceSharingScope::AllReplicas => per_replica.saturating_mul(self.context.set.spec.replicas.into()),
            ResourceSharingScope::PerReplica => per_replica,
        }
    }

    /// The pods that share a claim of a scaling group.
    fn of_group(&self, group: &PodCliqueScalingGroupConfig, share: &SharedClaim<'_>) -> i64 {
        let is_member = |clique: &str| self.context.group_of(clique).is_some_and(|it| it.name == group.name);
        let all_replicas = if share.cliques.is_empty() {
            self.of_groups.get(group.name.as_str()).copied().unwrap_or_default()
        } else {
            let cliques: BTreeSet<&str> = share.cliques.iter().map(String::as_str).collect();
            let cliques = cliques.into_iter().filter(|clique| is_member(clique));
            let cliques = cliques.filter_map(|clique| self.context.clique(clique)).map(|clique| self.of_clique(clique));
            cliques.fold(0, i64::saturating_add)
        };
        match share.scope {
            ResourceSharingScope::AllReplicas => all_replicas,
            ResourceSharingScope::PerReplica => all_replicas / max_replicas(group).max(1),
        }
    }
}

fn pods_of_clique(clique: &PodCliqueTemplateSpec) -> i64 {
    let max = clique.spec.auto_scaling_config.as_ref().map_or(0, |scale| scale.max_replicas);
    clique.spec.replicas.max(max).into()
}

fn max_replicas(group: &PodCliqueScalingGroupConfig) -> i64 {
    group.scale_config.as_ref().map_or(0, |scale| scale.max_replicas).max(group.replicas()).into()
}
