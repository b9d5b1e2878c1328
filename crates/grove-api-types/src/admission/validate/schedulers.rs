//! What single schedulers ask of a set: queues, and no topology constraints where they know none.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::topology::domains;
use super::{Judged, pods, template_path};
use crate::admission::findings::Findings;
use crate::admission::{FieldPath, Rule};
use crate::labels::{KAI_QUEUE, VOLCANO_QUEUE};
use crate::scheduler::Scheduler;
use crate::syntax::dns_subdomain;
use crate::v1alpha1::TopologyConstraint;

/// The queue of Volcano that everybody has who names none.
const VOLCANO_DEFAULT: &str = "default";

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let Some(first) = judged.template().cliques.first() else { return };
    let name = pods::scheduler(judged, first);
    let scheduler = judged.facts.schedulers.profiles.iter().find(|profile| profile.name.name() == name);
    match scheduler.map(|profile| profile.name) {
        None | Some(Scheduler::Kube) => {}
        Some(Scheduler::Kai) => kai(judged, found),
        Some(Scheduler::Volcano) => {
            let says =
                |what: String| format!("volcano scheduler backend does not support topologyConstraint on {what}");
            no_topology(judged, says, found);
            volcano(judged, found);
        }
        Some(Scheduler::Lpx) => {
            let text = "lpx-scheduler does not support Grove topology constraints; placement topology must be expressed \
                        through the LPX workload contract";
            no_topology(judged, |_| text.to_owned(), found);
        }
    }
}

fn no_topology(judged: &Judged<'_>, says: impl Fn(String) -> String, found: &mut Findings) {
    let mut refuse = |path: &FieldPath, constraint: Option<&TopologyConstraint>, what: String| {
        let Some(constraint) = constraint else { return };
        let path = path.field("topologyConstraint");
        found.invalid(Rule::SchedulerTopology, &path, domains(constraint), says(what));
    };
    refuse(&template_path(), judged.template().topology_constraint.as_ref(), "PodCliqueSet".to_owned());
    for (path, clique) in judged.cliques() {
        refuse(&path, clique.topology_constraint.as_ref(), format!("PodClique {:?}", clique.name));
    }
    for (path, group) in judged.groups() {
        refuse(&path, group.topology_constraint.as_ref(), format!("PodCliqueScalingGroup {:?}", group.name));
    }
}

/// Exactly one queue: the set's, which every clique that names one repeats, or the one that the cliques agree on.
fn kai(judged: &Judged<'_>, found: &mut Findings) {
    let rule = Rule::KaiQueue;
    let of_set = judged.set.labels().get(KAI_QUEUE).or_else(|| judged.set.annotations().get(KAI_QUEUE));
    let of_set = of_set.filter(|queue| !queue.is_empty());
    let mut queues = BTreeSet::new();
    for (path, clique) in judged.cliques() {
        let (labelled, annotated) = (clique.labels.get(KAI_QUEUE), clique.annotations.get(KAI_QUEUE));
        let field = if labelled.is_some() { "labels" } else { "annotations" };
        let Some(queue) = labelled.or(annotated).filter(|queue| !queue.is_empty()) else { continue };
        queues.insert(queue.as_str());
        if let Some(other) = of_set.filter(|other| *other != queue) {
            let (set, name) = (judged.full_name(), &clique.name);
            let text = format!(
                "KAI queue on PodCliqueSet {set} is {other:?} but PodClique template {name:?} resolves to {queue:?}"
            );
            found.invalid(rule, &path.field(field).field(KAI_QUEUE), queue.as_str(), text);
        }
    }
    let path = FieldPath::new("metadata.labels").field(KAI_QUEUE);
    let set = judged.full_name();
    match (of_set, queues.len()) {
        (Some(_), _) | (None, 1) => {}
        (None, 0) => {
            let text = format!("no KAI queue is configured on PodCliqueSet {set} or its PodClique templates");
            found.required(rule, &path, text);
        }
        (None, _) => {
            let queues = queues.into_iter().collect::<Vec<_>>().join(" ");
            let text = format!("conflicting KAI queues on PodCliqueSet {set} PodClique templates: [{queues}]");
            found.required(rule, &path, text);
        }
    }
}

/// One queue for all cliques, which exists and is open.
fn volcano(judged: &Judged<'_>, found: &mut Findings) {
    let rule = Rule::VolcanoQueue;
    let path = FieldPath::new("metadata.annotations").field(VOLCANO_QUEUE);
    let of_set = judged.set.annotations().get(VOLCANO_QUEUE).map(String::as_str);
    let mut queues: Vec<(FieldPath, &str)> = of_set.map(|queue| (path.clone(), queue)).into_iter().collect();
    for (path, clique) in judged.cliques() {
        let path = path.field("annotations").field(VOLCANO_QUEUE);
        let own = clique.annotations.get(VOLCANO_QUEUE).map(String::as_str);
        if let (Some(set), Some(own)) = (of_set, own.filter(|own| Some(*own) != of_set)) {
            let text =
                format!("conflicting volcano queue annotations: PodCliqueSet has {set:?}, PodClique has {own:?}");
            found.invalid(rule, &path, own, text);
            continue;
        }
        let queue = own.or(of_set).unwrap_or(VOLCANO_DEFAULT);
        match queues.first() {
            Some((_, first)) if *first != queue => {
                let text = format!("all cliques of a set have one volcano queue, and others have {first:?}");
                found.invalid(rule, &path, queue, text);
            }
            Some(_) => {}
            None => queues.push((path, queue)),
        }
    }
    for (path, queue) in queues.iter().take(1) {
        match (dns_subdomain(queue), judged.facts.volcano_queues.get(*queue)) {
            (Err(said), _) => found.invalid(rule, path, *queue, said),
            (Ok(()), None) => found.invalid(rule, path, *queue, format!("volcano queue {queue:?} does not exist")),
            (Ok(()), Some(false)) => found.invalid(rule, path, *queue, format!("volcano queue {queue:?} is not Open")),
            (Ok(()), Some(true)) => {}
        }
    }
}
