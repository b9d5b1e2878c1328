//! The labels and annotations of objects that Grove creates have the syntax and the size that Kubernetes requires.

use std::collections::BTreeMap;

use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::syntax::{key, label_value};

/// The limit for all annotations of an object together, as in Kubernetes.
pub(super) const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check_labels(
    rule: Rule,
    path: &FieldPath,
    labels: &BTreeMap<String, String>,
    errors: &mut ErrorCollector,
) {
    for (name, value) in labels {
        if let Err(error) = key(name) {
            errors.invalid(rule, path, name.as_str(), error);
        }
        if let Err(error) = label_value(value) {
            errors.invalid(rule, path, value.as_str(), error);
        }
    }
}

pub(super) fn check_annotations(
    rule: Rule,
    path: &FieldPath,
    annotations: &BTreeMap<String, String>,
    errors: &mut ErrorCollector,
) {
    for name in annotations.keys() {
        if let Err(error) = key(&name.to_lowercase()) {
            errors.invalid(rule, path, name.as_str(), error);
        }
    }
    let size = annotation_bytes(annotations);
    if size > MAX_ANNOTATION_BYTES {
        let text = format!("annotations size {size} is larger than limit {MAX_ANNOTATION_BYTES}");
        errors.forbidden(rule, path, text);
    }
}

/// The size of annotations as Kubernetes counts it.
pub(super) fn annotation_bytes(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.len()).sum()
}
