//! The rules of single schedulers: queues, and no topology constraints for schedulers that do not support them.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::topology::domains;
use super::{ValidationContext, pods, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::labels::{KAI_QUEUE, VOLCANO_QUEUE};
use crate::scheduler::Scheduler;
use crate::syntax::dns_subdomain;
use crate::v1alpha1::TopologyConstraint;

/// The Volcano queue of a set without a queue.
const VOLCANO_DEFAULT: &str = "default";

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let Some(first) = context.template().cliques.first() else { return };
    let name = pods::scheduler(context, first);
    let scheduler = context.facts.schedulers.profiles.iter().find(|profile| profile.name.name() == name);
    match scheduler.map(|profile| profile.name) {
        None | Some(Scheduler::Kube) => {}
        Some(Scheduler::Kai) => check_kai_queue(context, errors),
        Some(Scheduler::Volcano) => {
            let message =
                |object: String| format!("volcano scheduler backend does not support topologyConstraint on {object}");
            deny_topology(context, message, errors);
            check_volcano_queue(context, errors);
        }
        Some(Scheduler::Lpx) => {
            let text = "lpx-scheduler does not support Grove topology constraints; placement topology must be expressed \
                        through the LPX workload contract";
            deny_topology(context, |_| text.to_owned(), errors);
        }
    }
}

fn deny_topology(context: &ValidationContext<'_>, message: impl Fn(String) -> String, errors: &mut ErrorCollector) {
    let mut deny = |path: &FieldPath, constraint: Option<&TopologyConstraint>, object: String| {
        let Some(constraint) = constraint else { return };
        let path = path.field("topologyConstraint");
        errors.invalid(Rule::SchedulerTopology, &path, domains(constraint), message(object));
    };
    deny(&template_path(), context.template().topology_constraint.as_ref(), "PodCliqueSet".to_owned());
    for (path, clique) in context.cliques() {
        deny(&path, clique.topology_constraint.as_ref(), format!("PodClique {:?}", clique.name));
    }
    for (path, group) in context.groups() {
        deny(&path, group.topology_constraint.as_ref(), format!("PodCliqueScalingGroup {:?}", group.name));
    }
}

/// A set has exactly one queue: its own, which all cliques with a queue repeat, or the one queue of its cliques.
fn check_kai_queue(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let rule = Rule::KaiQueue;
    let of_set = context.set.labels().get(KAI_QUEUE).or_else(|| context.set.annotations().get(KAI_QUEUE));
    let of_set = of_set.filter(|queue| !queue.is_empty());
    let mut queues = BTreeSet::new();
    for (path, clique) in context.cliques() {
        let (labelled, annotated) = (clique.labels.get(KAI_QUEUE), clique.annotations.get(KAI_QUEUE));
        let field = if labelled.is_some() { "labels" } else { "annotations" };
        let Some(queue) = labelled.or(annotated).filter(|queue| !queue.is_empty()) else { continue };
        queues.insert(queue.as_str());
        if let Some(other) = of_set.filter(|other| *other != queue) {
            let (set, name) = (context.full_name(), &clique.name);
            let text = format!(
                "KAI queue on PodCliqueSet {set} is {other:?} but PodClique template {name:?} resolves to {queue:?}"
            );
            errors.invalid(rule, &path.field(field).field(KAI_QUEUE), queue.as_str(), text);
        }
    }
    let path = FieldPath::new("metadata.labels").field(KAI_QUEUE);
    let set = context.full_name();
    match (of_set, queues.len()) {
        (Some(_), _) | (None, 1) => {}
        (None, 0) => {
            let text = format!("no KAI queue is configured on PodCliqueSet {set} or its PodClique templates");
            errors.required(rule, &path, text);
        }
        (None, _) => {
            let queues = queues.into_iter().collect::<Vec<_>>().join(" ");
            let text = format!("conflicting KAI queues on PodCliqueSet {set} PodClique templates: [{queues}]");
            errors.required(rule, &path, text);
        }
    }
}

/// All cliques have one queue, which exists and is open.
fn check_volcano_queue(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let rule = Rule::VolcanoQueue;
    let path = FieldPath::new("metadata.annotations").field(VOLCANO_QUEUE);
    let of_set = context.set.annotations().get(VOLCANO_QUEUE).map(String::as_str);
    let mut queues: Vec<(FieldPath, &str)> = of_set.map(|queue| (path.clone(), queue)).into_iter().collect();
    for (path, clique) in context.cliques() {
        let path = path.field("annotations").field(VOLCANO_QUEUE);
        let own = clique.annotations.get(VOLCANO_QUEUE).map(String::as_str);
        if let (Some(set), Some(own)) = (of_set, own.filter(|own| Some(*own) != of_set)) {
            let text =
                format!("conflicting volcano queue annotations: PodCliqueSet has {set:?}, PodClique has {own:?}");
            errors.invalid(rule, &path, own, text);
            continue;
        }
        let queue = own.or(of_set).unwrap_or(VOLCANO_DEFAULT);
        match queues.first() {
            Some((_, first)) if *first != queue => {
                let text =
                    format!("all cliques of a set must have the same volcano queue; other cliques have {first:?}");
                errors.invalid(rule, &path, queue, text);
            }
            Some(_) => {}
            None => queues.push((path, queue)),
        }
    }
    for (path, queue) in queues.iter().take(1) {
        match (dns_subdomain(queue), context.facts.volcano_queues.get(*queue)) {
            (Err(error), _) => errors.invalid(rule, path, *queue, error),
            (Ok(()), None) => errors.invalid(rule, path, *queue, format!("volcano queue {queue:?} does not exist")),
            (Ok(()), Some(false)) => errors.invalid(rule, path, *queue, format!("volcano queue {queue:?} is not Open")),
            (Ok(()), Some(true)) => {}
        }
    }
}
