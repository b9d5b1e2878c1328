//! Cliques: that there are some, their names, roles, labels and numbers; and the numbers of the set itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::texts::{ABOVE_REPLICAS, ABOVE_ZERO, CLIQUE_NAME, NO_CLIQUE, NO_DELAY, NO_NAME};
use crate::admission::{FieldPath, Rule};
use crate::labels::is_grove_label;
use crate::syntax::{dns_label, key, label_value};
use crate::v1alpha1::{PodCliqueSpec, PodCliqueTemplateSpec};

/// The most that the annotations of an object may have together.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    set(judged, found);
    let (mut names, mut roles) = (BTreeSet::new(), BTreeSet::new());
    for (path, clique) in judged.cliques() {
        name(&path.field("name"), clique, found);
        if !clique.name.is_empty() && !names.insert(&clique.name) {
            found.duplicate(Rule::CliqueName, &path.field("name"), clique.name.as_str());
        }
        let spec = path.field("spec");
        let role = &clique.spec.role_name;
        if !role.is_empty() && !roles.insert(role) {
            found.duplicate(Rule::CliqueRole, &spec.field("roleName"), role.as_str());
        }
        labels(&path.field("labels"), &clique.labels, found);
        annotations(&path.field("annotations"), &clique.annotations, found);
        numbers(&spec, &clique.spec, found);
    }
}

fn set(judged: &Judged<'_>, found: &mut Findings) {
    let (replicas, template) = (judged.set.spec.replicas, judged.template());
    if replicas < 0 {
        let path = FieldPath::new("spec.replicas");
        found.invalid(Rule::SetReplicas, &path, replicas, "must be greater than or equal to 0");
    }
    if template.cliques.is_empty() {
        found.required(Rule::Cliques, &template_path().field("cliques"), NO_CLIQUE);
    }
    let path = template_path().field("terminationDelay");
    let Some(delay) = &template.termination_delay else { return };
    match delay.value() {
        Some(value) if !value.is_zero() => {}
        Some(_) => {
            found.invalid(Rule::TerminationDelay, &path, delay.as_str(), NO_DELAY);
        }
        None => {
            let text = "no duration; write it like 4h, 15m or 1m30s";
            found.invalid(Rule::TerminationDelay, &path, delay.as_str(), text);
        }
    }
}

fn name(path: &FieldPath, clique: &PodCliqueTemplateSpec, found: &mut Findings) {
    if clique.name.trim().is_empty() {
        found.required(Rule::CliqueName, path, NO_NAME);
    } else if dns_label(&clique.name).is_err() {
        found.invalid(Rule::CliqueName, path, clique.name.as_str(), CLIQUE_NAME);
    }
}

/// Tells who creates a set of no replicas; whoever scales one to nothing knows it.
pub(super) fn at_creation(judged: &Judged<'_>, found: &mut Findings) {
    if judged.set.spec.replicas == 0 {
        found.warn(&FieldPath::new("spec.replicas"), "is 0 or left out; nothing is created until the set is scaled");
    }
}

fn labels(path: &FieldPath, labels: &BTreeMap<String, String>, found: &mut Findings) {
    for (name, value) in labels {
        if is_grove_label(name) {
            found.warn(&path.key(name), "is a label of Grove's, which is written over this value");
        }
        if let Err(said) = key(name) {
            found.invalid(Rule::CliqueMetadata, path, name.as_str(), said);
        }
        if let Err(said) = label_value(value) {
            found.invalid(Rule::CliqueMetadata, path, value.as_str(), said);
        }
    }
}

fn annotations(path: &FieldPath, annotations: &BTreeMap<String, String>, found: &mut Findings) {
    for name in annotations.keys() {
        if let Err(said) = key(&name.to_lowercase()) {
            found.invalid(Rule::CliqueMetadata, path, name.as_str(), said);
        }
    }
    let size: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MOST_ANNOTATION_BYTES {
        let text = format!("annotations size {size} is larger than limit {MOST_ANNOTATION_BYTES}");
        found.forbidden(Rule::CliqueMetadata, path, text);
    }
}

fn numbers(path: &FieldPath, spec: &PodCliqueSpec, found: &mut Findings) {
    if spec.replicas <= 0 {
        found.invalid(Rule::CliqueReplicas, &path.field("replicas"), spec.replicas, ABOVE_ZERO);
    }
    let (rule, path) = (Rule::CliqueMinAvailable, path.field("minAvailable"));
    match spec.min_available {
        None => found.required(rule, &path, "field is required"),
        Some(least) if least <= 0 => found.invalid(rule, &path, least, ABOVE_ZERO),
        Some(least) if least > spec.replicas => {
            found.invalid(rule, &path, least, ABOVE_REPLICAS);
        }
        Some(_) => {}
    }
}
