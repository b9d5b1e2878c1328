//! MNNVL (`NVLink` between nodes): the two annotations by which sets, scaling groups and cliques request compute domains.

use kube::ResourceExt;

use super::ValidationContext;
use crate::admission::error_collector::{ErrorCollector, ExceededLimit};
use crate::admission::{FieldPath, Rule};
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_DISABLED, AUTO_MNNVL_ENABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::mnnvl::{domain_of_clique, gpus_of_pod, is_auto_mnnvl, requests_gpu};
use crate::names::{ComputeDomainName, PodCliqueSetName};
use crate::syntax::{MAX_LABEL_LENGTH, dns_label};
use crate::v1alpha1::PodCliqueSet;

/// The new and the old value of an annotation of the set, of a clique or of a scaling group.
struct AnnotationChange<'a> {
    path: FieldPath,
    new: Option<&'a str>,
    old: Option<&'a str>,
}

/// The values of the annotation in the set, its cliques and its groups, with those of the old set.
fn annotation_changes<'a>(
    context: &ValidationContext<'a>,
    old_set: &'a PodCliqueSet,
    key: &'a str,
) -> Vec<AnnotationChange<'a>> {
    let text = |value: Option<&'a String>| value.map(String::as_str);
    let mut all = vec![AnnotationChange {
        path: FieldPath::new("metadata.annotations").key(key),
        new: text(context.set.annotations().get(key)),
        old: text(old_set.annotations().get(key)),
    }];
    for (path, clique, old) in context.cliques_with_old(&old_set.spec.template.cliques) {
        let Some(old) = old else { continue };
        let path = path.field("annotations").key(key);
        let (new, old) = (text(clique.annotations.get(key)), text(old.annotations.get(key)));
        all.push(AnnotationChange { path, new, old });
    }
    for (path, group, old) in context.groups_with_old(&old_set.spec.template.pod_clique_scaling_groups) {
        let Some(old) = old else { continue };
        let path = path.field("annotations").key(key);
        let (new, old) = (text(group.annotations.get(key)), text(old.annotations.get(key)));
        all.push(AnnotationChange { path, new, old });
    }
    all
}

/// The values of the annotation in the set, its cliques and its groups.
fn annotation_values<'a>(context: &ValidationContext<'a>, key: &'a str) -> impl Iterator<Item = (FieldPath, &'a str)> {
    let changes = annotation_changes(context, context.set, key).into_iter();
    changes.filter_map(|change| Some((change.path, change.new?)))
}

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    check_form(context, errors);
    check_name_lengths(context, errors);
    let has_gpu = context.template().cliques.iter().any(|clique| requests_gpu(&clique.spec.pod_spec));
    let automatic = is_auto_mnnvl(context.set).then(|| FieldPath::new("metadata.annotations").field(AUTO_MNNVL));
    let grouped =
        || annotation_values(context, MNNVL_GROUP).find(|(_, group)| *group != NO_MNNVL_GROUP).map(|(path, _)| path);
    if let Some(path) = automatic.or_else(grouped).filter(|_| !has_gpu) {
        errors.warn(&path, "requests a compute domain, but no container requests nvidia.com/gpu");
    }
    warn_of_partial_nodes(context, errors);
    for (path, _) in annotation_values(context, AUTO_MNNVL).filter(|(path, _)| path.is_within_spec()) {
        errors.warn(&path, format!("has no effect here; Grove reads {AUTO_MNNVL} of the PodCliqueSet only"));
    }
}

/// A node takes part in one domain through one IMEX channel, so it runs one pod with the claim of a domain.
fn warn_of_partial_nodes(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let Some(node) = context.facts.gpus_per_node else { return };
    for (path, clique) in context.cliques() {
        if domain_of_clique(context.set, 0, context.group_of(&clique.name), clique).is_none() {
            continue;
        }
        let gpus = gpus_of_pod(&clique.spec.pod_spec);
        if gpus < node {
            let text = format!(
                "has {gpus} of the {node} GPUs of a node: a node has one IMEX channel, so it runs one pod of a compute domain; request all \
                 GPUs, or set {AUTO_MNNVL}: {AUTO_MNNVL_DISABLED}"
            );
            errors.warn(&path.field("spec").field("podSpec"), text);
        }
    }
}

/// A set uses automatic MNNVL or groups, not both.
fn check_form(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    if !is_auto_mnnvl(context.set) {
        return;
    }
    for (path, group) in annotation_values(context, MNNVL_GROUP) {
        let text =
            format!("a set has either {AUTO_MNNVL}: {AUTO_MNNVL_ENABLED} or groups; remove one of the annotations");
        errors.invalid(Rule::MnnvlForm, &path, group, text);
    }
}

/// The name of a `ComputeDomain` is also the value of a label of that object.
fn check_name_lengths(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let set = PodCliqueSetName::new(context.set.name_any());
    let last = context.set.spec.replicas.max(1).saturating_sub(1);
    for (path, group) in annotation_values(context, MNNVL_GROUP).filter(|(_, group)| dns_label(group).is_ok()) {
        let domain = ComputeDomainName::of_group(&set, last, group);
        let length = domain.as_str().len();
        if length > MAX_LABEL_LENGTH {
            let text = format!(
                "ComputeDomain '{domain}' of the last replica would have a name of {length} characters; at most \
                 {MAX_LABEL_LENGTH} are allowed; shorten the names or lower the number of replicas"
            );
            errors.exceeds((Rule::ClaimName, &path), group, ExceededLimit::of_length(&path, group, length), text);
        }
    }
}

/// Checks the values, and that the feature is enabled. An update needs no check, because the annotations are immutable.
pub(super) fn check_create(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let disabled = |key: &str| {
        format!(
            "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or remove the {key} \
             annotation"
        )
    };
    let path = FieldPath::new("metadata.annotations").field(AUTO_MNNVL);
    match context.set.annotations().get(AUTO_MNNVL).map(String::as_str) {
        None | Some(AUTO_MNNVL_DISABLED) => {}
        Some(AUTO_MNNVL_ENABLED) if context.facts.mnnvl_enabled => {}
        Some(AUTO_MNNVL_ENABLED) => {
            errors.invalid(Rule::MnnvlEnabled, &path, AUTO_MNNVL_ENABLED, disabled(AUTO_MNNVL));
        }
        Some(other) => errors.invalid(Rule::AutoMnnvl, &path, other, r#"must be "enabled" or "disabled""#),
    }
    for (path, group) in annotation_values(context, MNNVL_GROUP) {
        if group == NO_MNNVL_GROUP {
            continue;
        }
        if group.is_empty() {
            errors.invalid(Rule::MnnvlGroup, &path, group, "mnnvl-group value must not be empty");
        } else if let Err(error) = dns_label(group) {
            let text = format!("mnnvl-group value {group:?} is not a valid DNS-1123 label: {error}");
            errors.invalid(Rule::MnnvlGroup, &path, group, text);
        }
        if !context.facts.mnnvl_enabled {
            errors.invalid(Rule::MnnvlEnabled, &path, group, disabled(MNNVL_GROUP));
        }
    }
}

pub(super) fn check_update(context: &ValidationContext<'_>, old_set: &PodCliqueSet, errors: &mut ErrorCollector) {
    for (key, when) in [(MNNVL_GROUP, "after creation"), (AUTO_MNNVL, "after PodCliqueSet creation")] {
        for AnnotationChange { path, new, old } in annotation_changes(context, old_set, key) {
            let is_read = key == MNNVL_GROUP || !path.is_within_spec();
            if new == old || !is_read {
                continue;
            }
            match (old, new) {
                (Some(old), Some(new)) => {
                    let text = format!("annotation {key} is immutable and cannot be changed from {old:?} to {new:?}");
                    errors.invalid(Rule::MnnvlImmutable, &path, new, text);
                }
                (None, _) => {
                    let text = format!("annotation {key} cannot be added {when}");
                    errors.forbidden(Rule::MnnvlImmutable, &path, text);
                }
                (Some(_), None) => {
                    let text = format!("annotation {key} cannot be removed {when}");
                    errors.forbidden(Rule::MnnvlImmutable, &path, text);
                }
            }
        }
    }
}
