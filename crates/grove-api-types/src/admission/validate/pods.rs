//! The pod specs of a set: schedulers, placement, environment variables, restart policies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ValidationContext;
use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::environment::is_injected;
use crate::pod_spec::RawPodSpec;
use crate::startup::INIT_CONTAINER;
use crate::syntax::{environment_variable, is_blank};
use crate::v1alpha1::{PodCliqueSet, PodCliqueTemplateSpec};

/// Fields that choose nodes in place of the scheduler, or the gang of a pod in place of Grove.
const PLACEMENT: [&str; 3] = ["topologySpreadConstraints", "nodeName", "schedulingGroup"];

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    check_schedulers(context, errors);
    for (path, clique) in context.cliques() {
        let (path, pod) = (path.field("spec").field("podSpec"), &clique.spec.pod_spec);
        let is_member = context.group_of(&clique.name).is_some();
        for field in ["containers", "initContainers"] {
            let containers = pod.get(field);
            check_names(&path.field(field), containers.as_ref(), errors);
            check_environment(&path.field(field), containers.as_ref(), is_member, errors);
        }
        for field in ["hostname", "subdomain"] {
            if written(pod, field).is_some() {
                errors
                    .warn(&path.field(field), "is set by Grove for the headless Service; Grove overwrites this value");
            }
        }
        if let Some(policy) = pod.string("restartPolicy").filter(|policy| policy != "Always") {
            let text = format!("{policy:?} does not prevent that Grove replaces a pod that succeeded or failed");
            errors.warn(&path.field("restartPolicy"), text);
        }
    }
}

/// The name of the scheduler of a clique.
pub(super) fn scheduler(context: &ValidationContext<'_>, clique: &PodCliqueTemplateSpec) -> String {
    let written = clique.spec.pod_spec.string("schedulerName").filter(|name| !name.trim().is_empty());
    written.unwrap_or_else(|| context.facts.schedulers.default_profile.name().to_owned())
}

fn check_schedulers(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let path_of = |path: FieldPath| path.field("spec").field("podSpec").field("schedulerName");
    let mut cliques = context.cliques();
    let Some((path, first)) = cliques.next() else { return };
    let first = scheduler(context, first);
    let enabled = &context.facts.schedulers.profiles;
    if !enabled.iter().any(|profile| profile.name.name() == first) {
        let text = "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in OperatorConfiguration";
        errors.invalid(Rule::EnabledScheduler, &path_of(path), first.as_str(), text);
    }
    for (path, clique) in cliques {
        let other = scheduler(context, clique);
        if other != first {
            let text = "the schedulerName for all pods have to be the same";
            errors.invalid(Rule::OneScheduler, &path_of(path), [first.as_str(), &other].join(", "), text);
        }
    }
}

/// A new set may not choose nodes. Existing sets may.
pub(super) fn check_create(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    for (path, clique) in context.cliques() {
        for field in PLACEMENT {
            if let Some(value) = written(&clique.spec.pod_spec, field) {
                let path = path.field("spec").field("podSpec").field(field);
                errors.invalid(Rule::PodPlacement, &path, value, "must not be set");
            }
        }
    }
}

/// Warns about an update that adds such a field.
pub(super) fn check_update<'a>(context: &ValidationContext<'a>, old: &'a PodCliqueSet, errors: &mut ErrorCollector) {
    for (path, clique, before) in context.cliques_with_old(&old.spec.template.cliques) {
        for field in PLACEMENT {
            let had = before.and_then(|before| written(&before.spec.pod_spec, field));
            if written(&clique.spec.pod_spec, field).is_some() && had.is_none() {
                let path = path.field("spec").field("podSpec").field(field);
                errors.warn(&path, "prevents gang scheduling, and is denied in a new set");
            }
        }
    }
}

fn written(pod: &RawPodSpec, field: &str) -> Option<Value> {
    pod.get(field).filter(|value| !is_blank(Some(value)))
}

fn check_names(path: &FieldPath, containers: Option<&Value>, errors: &mut ErrorCollector) {
    for (at, container) in containers.and_then(Value::as_array).into_iter().flatten().enumerate() {
        if container.get("name").and_then(Value::as_str) == Some(INIT_CONTAINER) {
            let path = path.item(at, INIT_CONTAINER).field("name");
            let text = "is the name of the init container that Grove adds to pods that start after others; choose another name";
            errors.invalid(Rule::ReservedContainer, &path, INIT_CONTAINER, text);
        }
    }
}

fn check_environment(path: &FieldPath, containers: Option<&Value>, is_member: bool, errors: &mut ErrorCollector) {
    for (at, container) in containers.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name_of = |object: &Value| object.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = path.item(at, &name_of(container)).field("env");
        let mut seen = BTreeSet::new();
        for (at, variable) in container.get("env").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let name = name_of(variable);
            let path = path.item(at, &name).field("name");
            if let Err(error) = environment_variable(&name) {
                errors.invalid(Rule::Environment, &path, name.as_str(), error);
            }
            if is_injected(&name, is_member) {
                errors.warn(&path, format!("Grove sets {name}; Grove overwrites this value"));
            }
            if !seen.insert(name.clone()) {
                errors.duplicate(Rule::Environment, &path, name);
            }
        }
    }
}
