//! Reads the gangs and the cliques of a set from the caches, and decides which `PodGroup`s of the workload API the gangs have. It sends no
//! requests.

use std::sync::Arc;

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{Gang, SetReplica};
use grove_api_types::labels;
use grove_api_types::pack_affinity::{GangPacking, digest};
use grove_api_types::pod_group::{PackRecord, PodGroupRef, PodGroupSpec, name_in_annotation};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::children::ObservedChildren;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decision::GangState;
use super::gang_pods::GangPods;
use super::{GangDecisions, Incarnations, cliques_of_gang};
use crate::topology::{GangConstraints, GangTopologies, constrained_spec};
use crate::update::Turns;

/// A set, its children and its replicas.
pub(crate) struct GangsOfSet<'a> {
    /// The set, with Grove's defaults applied.
    pub(crate) set: &'a PodCliqueSet,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    pub(crate) children: &'a ObservedChildren,
    pub(crate) replicas: &'a [SetReplica],
    /// The topologies of its gangs.
    pub(crate) topologies: &'a GangTopologies,
    /// What an update means for its replicas.
    pub(crate) turns: &'a Turns,
}

/// The `PodGroup`s of the gangs of the set. The cliques of a gang that has none and gets none are not read.
pub(crate) fn gang_decisions(
    incarnations: &Incarnations,
    cliques: &Cache<PodClique>,
    belongs_to_set: impl Fn(&PodClique) -> bool,
    gangs_of_set: &GangsOfSet<'_>,
    now: Timestamp,
) -> GangDecisions {
    let GangsOfSet { set, children, topologies, turns, .. } = *gangs_of_set;
    let applies = incarnations.apply_to(set, Scheduler::of_set(set).unwrap_or(gangs_of_set.default_scheduler));
    let mut gang_decisions = GangDecisions::default();
    let (namespace, mut choices) = (set.namespace().unwrap_or_default(), incarnations.choices(set));
    let requested = incarnations.requested_restarts(set);
    let replicas = gangs_of_set.replicas.iter();
    let gangs = replicas.flat_map(|replica| replica.gangs().into_iter().map(move |gang| (replica, gang)));
    for (replica, gang) in gangs {
        let name = gang.name.as_str();
        let live = children.get::<PodGang>(name).filter(|live| !is_terminating(&***live));
        // The cliques of a gang that does not exist show whether their pods have a PodGroup.
        if !applies && live.is_some_and(|live| !live.annotations().contains_key(labels::POD_GROUP)) {
            continue;
        }
        let names = gang.cliques.iter().map(|clique| clique.name.as_str());
        let (packing, relies_on_key) = if applies { packing(topologies, replica, &gang) } else { (None, false) };
        let pods = pods(&gang, live.map(|live| &**live), |name| cliques.get(&namespace, name));
        let is_scaled = name != replica.base_gang.as_str();
        let current = &replica.revision.hashes().generation_hash;
        let is_given = turns.given.contains(&replica.index);
        let is_updated_later = is_given || turns.waiting.contains(&replica.index);
        let earlier = match live {
            _ if !(is_scaled && is_updated_later) => None,
            Some(live) => live.labels().get(labels::GENERATION_HASH).filter(|revision| *revision != current).cloned(),
            None => names.clone().find_map(|name| earlier_revision(&*cliques.get(&namespace, name)?, current)),
        };
        let is_requested = requested.get(name).is_some_and(|restart| restart.hash == *current);
        let restarts = is_given && live.is_some() && earlier.is_some() && is_requested;
        let (live, unreadable) = live.map(|live| recorded(live)).unwrap_or_default();
        let state = GangState {
            gang: name,
            live,
            unreadable,
            cliques: cliques_of_gang(cliques, (&namespace, name), names, &belongs_to_set),
            wanted: applies.then(|| PodGroupSpec { packing, ..spec(replica, &gang, &pods) }),
            pods,
            relies_on_key,
            restarts,
            choice: choices.remove(name).unwrap_or_default(),
        };
        gang_decisions.decide(state, earlier.filter(|_| !restarts), now);
    }
    gang_decisions
}

/// The hash of the earlier revision of a clique with a `PodGroup`, whose gang was deleted. Otherwise the new gang would look as if it had restarted.
fn earlier_revision(clique: &PodClique, current: &str) -> Option<String> {
    let annotations = clique.annotations();
    let revision = annotations.get(labels::GENERATION_HASH).filter(|_| annotations.contains_key(labels::POD_GROUP));
    revision.filter(|revision| *revision != current).cloned()
}

/// The `PodGroup` that the annotations of an existing gang name, and why they cannot be read. Then the fields are the default ones.
fn recorded(gang: &PodGang) -> (Option<PodGroupRef>, Option<UnreadableAnnotation>) {
    match PodGroupRef::of_gang(gang) {
        Ok(group) => (group, None),
        Err(error) => {
            let name = name_in_annotation(&gang.name_any(), gang).ok().flatten();
            let without_fields = |name: &str| PodGroupRef { name: name.to_owned(), spec: PodGroupSpec::default() };
            (name.map(without_fields), Some(error))
        }
    }
}

/// The pods of the cliques of the gang.
fn pods(gang: &Gang<'_>, live: Option<&PodGang>, cached: impl Fn(&str) -> Option<Arc<PodClique>>) -> GangPods {
    let mut pods = GangPods::of_gang(live);
    for clique in &gang.cliques {
        let name = clique.name.as_str();
        pods.insert(name, clique.min_available, clique.replicas, cached(name).as_deref());
    }
    pods
}

/// The fields of the `PodGroup`. The priority of the gang is that of the set; otherwise that of its pods, if all have the same one.
fn spec(replica: &SetReplica, gang: &Gang<'_>, pods: &GangPods) -> PodGroupSpec {
    let of_set = &replica.revision.template.priority_class_name;
    let mut of_pods = gang.cliques.iter().map(|clique| clique.template.spec.pod_spec.string("priorityClassName"));
    let of_first = of_pods.next().flatten().filter(|first| of_pods.all(|other| other.as_ref() == Some(first)));
    let priority = Some(of_set.clone()).filter(|name| !name.is_empty()).or(of_first);
    PodGroupSpec {
        min_count: pods.required(),
        priority_class_name: priority.filter(|name| !name.is_empty()),
        packing: None,
        below_minimum: pods.below_minimum(),
    }
}

/// How the gang is packed, and whether the affinity of its pods relies on the key.
fn packing(topologies: &GangTopologies, replica: &SetReplica, gang: &Gang<'_>) -> (Option<PackRecord>, bool) {
    let constraints = topologies.of_gang(gang.name.as_str());
    if matches!(constraints, GangConstraints::None) {
        return (None, false);
    }
    let depth =
        |key: &str| if let GangConstraints::Of(constraints) = constraints { constraints.depth(key) } else { None };
    let spec = constrained_spec(topologies, replica, gang);
    let packing = GangPacking::of(&spec);
    let key = packing.key(depth).map(str::to_owned);
    (digest(&spec).map(|constraints| PackRecord { key, constraints }), packing.relies_on_key())
}
