//! What the pod specs of a set say: schedulers, where pods go, environment variables, restarts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Judged;
use crate::admission::findings::Findings;
use crate::admission::{FieldPath, Rule};
use crate::environment::is_injected;
use crate::pod_spec::RawPodSpec;
use crate::syntax::{environment_variable, is_blank};
use crate::v1alpha1::{PodCliqueSet, PodCliqueTemplateSpec};

/// Fields by which a user would choose nodes in place of the scheduler.
const PLACEMENT: [&str; 2] = ["topologySpreadConstraints", "nodeName"];

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    schedulers(judged, found);
    for (path, clique) in judged.cliques() {
        let (path, pod) = (path.field("spec").field("podSpec"), &clique.spec.pod_spec);
        let is_member = judged.group_of(&clique.name).is_some();
        for field in ["containers", "initContainers"] {
            environment(&path.field(field), pod.get(field), is_member, found);
        }
        for field in ["hostname", "subdomain"] {
            if written(pod, field).is_some() {
                found.warn(
                    &path.field(field),
                    "is Grove's, by which pods of a gang find one another; this value is not used",
                );
            }
        }
        if let Some(policy) = pod.text("restartPolicy").filter(|policy| *policy != "Always") {
            let told = format!("{policy:?} is kept, and a pod that has ended is replaced by a new one all the same");
            found.warn(&path.field("restartPolicy"), told);
        }
    }
}

/// The scheduler that a clique asks for.
pub(super) fn scheduler<'a>(judged: &Judged<'a>, clique: &'a PodCliqueTemplateSpec) -> &'a str {
    let written = clique.spec.pod_spec.text("schedulerName").filter(|name| !name.trim().is_empty());
    written.unwrap_or(judged.facts.schedulers.default_profile.name())
}

fn schedulers(judged: &Judged<'_>, found: &mut Findings) {
    let path_of = |path: FieldPath| path.field("spec").field("podSpec").field("schedulerName");
    let mut cliques = judged.cliques();
    let Some((path, first)) = cliques.next() else { return };
    let first = scheduler(judged, first);
    let enabled = &judged.facts.schedulers.profiles;
    if !enabled.iter().any(|profile| profile.name.name() == first) {
        let text = "schedulerName must be an enabled scheduler backend; this scheduler is not enabled in OperatorConfiguration";
        found.invalid(Rule::EnabledScheduler, &path_of(path), first, text);
    }
    for (path, clique) in cliques {
        let other = scheduler(judged, clique);
        if other != first {
            let text = "the schedulerName for all pods have to be the same";
            found.invalid(Rule::OneScheduler, &path_of(path), [first, other].join(", "), text);
        }
    }
}

/// What a new set may not say. Sets that say it already keep it.
pub(super) fn placement(judged: &Judged<'_>, found: &mut Findings) {
    for (path, clique) in judged.cliques() {
        for field in PLACEMENT {
            if let Some(value) = written(&clique.spec.pod_spec, field) {
                let path = path.field("spec").field("podSpec").field(field);
                found.invalid(Rule::PodPlacement, &path, value.clone(), "must not be set");
            }
        }
    }
}

/// Tells who adds such a field to a set that exists.
pub(super) fn moved<'a>(judged: &Judged<'a>, old: &'a PodCliqueSet, found: &mut Findings) {
    for (path, clique, before) in judged.cliques_since(&old.spec.template.cliques) {
        for field in PLACEMENT {
            let had = before.and_then(|before| written(&before.spec.pod_spec, field));
            if written(&clique.spec.pod_spec, field).is_some() && had.is_none() {
                let path = path.field("spec").field("podSpec").field(field);
                found.warn(&path, "works against the scheduling of gangs, and a new set may not have it");
            }
        }
    }
}

fn written<'a>(pod: &'a RawPodSpec, field: &str) -> Option<&'a Value> {
    pod.get(field).filter(|value| !is_blank(Some(value)))
}

fn environment(path: &FieldPath, containers: Option<&Value>, is_member: bool, found: &mut Findings) {
    for (at, container) in containers.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name_of = |object: &Value| object.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = path.item(at, &name_of(container)).field("env");
        let mut seen = BTreeSet::new();
        for (at, variable) in container.get("env").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let name = name_of(variable);
            let path = path.item(at, &name).field("name");
            if let Err(said) = environment_variable(&name) {
                found.invalid(Rule::Environment, &path, name.as_str(), said);
            }
            if is_injected(&name, is_member) {
                found.warn(&path, format!("{name} is given by Grove; this value is not used"));
            }
            if !seen.insert(name.clone()) {
                found.duplicate(Rule::Environment, &path, name);
            }
        }
    }
}
