//! The rules of single schedulers: queues, and no topology constraints for schedulers that do not support them. The file of a scheduler
//! (`scheduler/`) has its keys and texts.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::topology::domains;
use super::{ValidationContext, pods, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::scheduler::{Queues, TopologySupport};
use crate::syntax::dns_subdomain;
use crate::v1alpha1::TopologyConstraint;

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let Some(first) = context.template().cliques.first() else { return };
    let name = pods::scheduler(context, first);
    let scheduler = context.facts.schedulers.profiles.iter().find(|profile| profile.name.name() == name);
    let Some(scheduler) = scheduler.map(|profile| profile.name) else { return };
    if let TopologySupport::Denied(message) = scheduler.topology_support() {
        deny_topology(context, message, errors);
    }
    match scheduler.queues() {
        Queues::None => {}
        queues @ Queues::Required { key, display_name } => {
            check_required_queue(context, (queues, key, display_name), errors);
        }
        queues @ Queues::Defaulted { annotation, default, display_name } => {
            check_existing_queue(context, (queues, annotation, default, display_name), errors);
        }
    }
}

fn deny_topology(context: &ValidationContext<'_>, message: fn(&str) -> String, errors: &mut ErrorCollector) {
    let mut deny = |path: &FieldPath, constraint: Option<&TopologyConstraint>, object: String| {
        let Some(constraint) = constraint else { return };
        let path = path.field("topologyConstraint");
        errors.invalid(Rule::SchedulerTopology, &path, domains(constraint), message(&object));
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
fn check_required_queue(
    context: &ValidationContext<'_>,
    (queues, key, scheduler): (Queues, &'static str, &str),
    errors: &mut ErrorCollector,
) {
    let rule = Rule::SchedulerQueue;
    let of_set = queues.named(context.set.labels(), context.set.annotations());
    let mut of_cliques = BTreeSet::new();
    for (path, clique) in context.cliques() {
        let is_label = clique.labels.get(key).is_some_and(|queue| !queue.is_empty());
        let field = if is_label { "labels" } else { "annotations" };
        let Some(queue) = queues.named(&clique.labels, &clique.annotations) else { continue };
        of_cliques.insert(queue);
        if let Some(other) = of_set.filter(|other| *other != queue) {
            let (set, name) = (context.full_name(), &clique.name);
            let text = format!(
                "{scheduler} queue on PodCliqueSet {set} is {other:?} but PodClique template {name:?} resolves to {queue:?}"
            );
            errors.invalid(rule, &path.field(field).field(key), queue, text);
        }
    }
    let path = FieldPath::new("metadata.labels").field(key);
    let set = context.full_name();
    match (of_set, of_cliques.len()) {
        (Some(_), _) | (None, 1) => {}
        (None, 0) => {
            let text = format!("no {scheduler} queue is configured on PodCliqueSet {set} or its PodClique templates");
            errors.required(rule, &path, text);
        }
        (None, _) => {
            let names = of_cliques.into_iter().collect::<Vec<_>>().join(" ");
            let text = format!("conflicting {scheduler} queues on PodCliqueSet {set} PodClique templates: [{names}]");
            errors.required(rule, &path, text);
        }
    }
}

/// All cliques have one queue, which exists and is open.
fn check_existing_queue(
    context: &ValidationContext<'_>,
    (queues, annotation, default, scheduler): (Queues, &'static str, &str, &str),
    errors: &mut ErrorCollector,
) {
    let rule = Rule::SchedulerQueue;
    let path = FieldPath::new("metadata.annotations").field(annotation);
    let of_set = queues.named(context.set.labels(), context.set.annotations());
    let mut found: Vec<(FieldPath, &str)> = of_set.map(|queue| (path.clone(), queue)).into_iter().collect();
    for (path, clique) in context.cliques() {
        let path = path.field("annotations").field(annotation);
        let own = queues.named(&clique.labels, &clique.annotations);
        if let (Some(set), Some(own)) = (of_set, own.filter(|own| Some(*own) != of_set)) {
            let text =
                format!("conflicting {scheduler} queue annotations: PodCliqueSet has {set:?}, PodClique has {own:?}");
            errors.invalid(rule, &path, own, text);
            continue;
        }
        let queue = own.or(of_set).unwrap_or(default);
        match found.first() {
            Some((_, first)) if *first != queue => {
                let text =
                    format!("all cliques of a set must have the same {scheduler} queue; other cliques have {first:?}");
                errors.invalid(rule, &path, queue, text);
            }
            Some(_) => {}
            None => found.push((path, queue)),
        }
    }
    let rule = Rule::QueueExists;
    for (path, queue) in found.iter().take(1) {
        let Some(known) = &context.facts.queues else {
            let text =
                format!("webhook-server must not read the queues; add the component deploy/components/{scheduler}");
            errors.invalid(rule, path, *queue, text);
            continue;
        };
        match (dns_subdomain(queue), known.get(*queue)) {
            (Err(error), _) => errors.invalid(rule, path, *queue, error),
            (Ok(()), None) => errors.invalid(rule, path, *queue, format!("{scheduler} queue {queue:?} does not exist")),
            (Ok(()), Some(false)) => {
                errors.invalid(rule, path, *queue, format!("{scheduler} queue {queue:?} is not Open"));
            }
            (Ok(()), Some(true)) => {}
        }
    }
}
