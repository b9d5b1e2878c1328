//! Cliques: their number, names, roles, labels, annotations and replicas; and the replicas of the set.

use std::collections::BTreeSet;

use super::metadata::{check_annotations, check_labels};
use super::{ValidationContext, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::{
    DELAY_NOT_POSITIVE, EMPTY_NAME, INVALID_CLIQUE_NAME, MIN_AVAILABLE_ABOVE_REPLICAS, NO_CLIQUES, NOT_POSITIVE,
};
use crate::admission::{FieldPath, Rule};
use crate::labels::is_grove_label;
use crate::syntax::dns_label;
use crate::v1alpha1::{PodCliqueSpec, PodCliqueTemplateSpec};

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    check_set(context, errors);
    let (mut names, mut roles) = (BTreeSet::new(), BTreeSet::new());
    for (path, clique) in context.cliques() {
        check_name(&path.field("name"), clique, errors);
        if !clique.name.is_empty() && !names.insert(&clique.name) {
            errors.duplicate(Rule::CliqueName, &path.field("name"), clique.name.as_str());
        }
        let spec = path.field("spec");
        let role = &clique.spec.role_name;
        if !role.is_empty() && !roles.insert(role) {
            errors.duplicate(Rule::CliqueRole, &spec.field("roleName"), role.as_str());
        }
        let labels = path.field("labels");
        for name in clique.labels.keys().filter(|name| is_grove_label(name)) {
            errors.warn(&labels.key(name), "is a label that Grove sets; Grove overwrites this value");
        }
        check_labels(Rule::CliqueMetadata, &labels, &clique.labels, errors);
        check_annotations(Rule::CliqueMetadata, &path.field("annotations"), &clique.annotations, errors);
        check_replicas(&spec, &clique.spec, errors);
    }
}

fn check_set(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let (replicas, template) = (context.set.spec.replicas, context.template());
    if replicas < 0 {
        let path = FieldPath::new("spec.replicas");
        errors.invalid(Rule::SetReplicas, &path, replicas, "must be greater than or equal to 0");
    }
    if template.cliques.is_empty() {
        errors.required(Rule::Cliques, &template_path().field("cliques"), NO_CLIQUES);
    }
    let path = template_path().field("terminationDelay");
    let Some(delay) = &template.termination_delay else { return };
    match delay.value() {
        Some(value) if !value.is_zero() => {}
        Some(_) => {
            errors.invalid(Rule::TerminationDelay, &path, delay.as_str(), DELAY_NOT_POSITIVE);
        }
        None => {
            let text = "is not a duration; valid examples: 4h, 15m, 1m30s";
            errors.invalid(Rule::TerminationDelay, &path, delay.as_str(), text);
        }
    }
}

fn check_name(path: &FieldPath, clique: &PodCliqueTemplateSpec, errors: &mut ErrorCollector) {
    if clique.name.trim().is_empty() {
        errors.required(Rule::CliqueName, path, EMPTY_NAME);
    } else if dns_label(&clique.name).is_err() {
        errors.invalid(Rule::CliqueName, path, clique.name.as_str(), INVALID_CLIQUE_NAME);
    }
}

/// Warns about a new set with 0 replicas. A user that scales a set to 0 gets no warning.
pub(super) fn check_create(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    if context.set.spec.replicas == 0 {
        errors.warn(&FieldPath::new("spec.replicas"), "is 0 or absent; Grove creates nothing until the set is scaled");
    }
}

fn check_replicas(path: &FieldPath, spec: &PodCliqueSpec, errors: &mut ErrorCollector) {
    if spec.replicas <= 0 {
        errors.invalid(Rule::CliqueReplicas, &path.field("replicas"), spec.replicas, NOT_POSITIVE);
    }
    let (rule, path) = (Rule::CliqueMinAvailable, path.field("minAvailable"));
    match spec.min_available {
        None => errors.required(rule, &path, "field is required"),
        Some(min) if min <= 0 => errors.invalid(rule, &path, min, NOT_POSITIVE),
        Some(min) if min > spec.replicas => {
            errors.invalid(rule, &path, min, MIN_AVAILABLE_ABOVE_REPLICAS);
        }
        Some(_) => {}
    }
}
