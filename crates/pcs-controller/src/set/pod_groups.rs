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
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::desired::constrained_spec;
use super::gang_topologies::GangConstraints;
use super::observed::{Observed, SetExpansion};
use crate::incarnations::{GangPods, GangState, Incarnations, PodGroups, cliques_of_gang};

/// The `PodGroup`s of the gangs of the set. The cliques of a gang that has none and gets none are not read.
pub(super) fn pod_groups(
    incarnations: &Incarnations,
    cliques: &Cache<PodClique>,
    belongs_to_set: impl Fn(&PodClique) -> bool,
    observed: &Observed,
    now: Timestamp,
) -> PodGroups {
    let set = &observed.set;
    let applies = incarnations.apply_to(set, Scheduler::of_set(set).unwrap_or(observed.default_scheduler));
    let mut pod_groups = PodGroups::default();
    let (namespace, mut choices) = (set.namespace().unwrap_or_default(), incarnations.choices(set));
    let expansion = observed.expansion();
    let gangs =
        expansion.replicas.iter().flat_map(|replica| replica.gangs().into_iter().map(move |gang| (replica, gang)));
    for (replica, gang) in gangs {
        let name = gang.name.as_str();
        let live = observed.children.get::<PodGang>(name).filter(|live| !is_terminating(&***live));
        // The cliques of a gang that does not exist show whether their pods have a PodGroup.
        if !applies && live.is_some_and(|live| !live.annotations().contains_key(labels::POD_GROUP)) {
            continue;
        }
        let names = gang.cliques.iter().map(|clique| clique.name.as_str());
        let (packing, relies_on_key) = if applies { packing(&expansion, replica, &gang) } else { (None, false) };
        let pods = pods(&gang, live.map(|live| &**live), |name| cliques.get(&namespace, name));
        let (live, unreadable) = live.map(|live| recorded(live)).unwrap_or_default();
        let state = GangState {
            gang: name,
            live,
            unreadable,
            cliques: cliques_of_gang(cliques, (&namespace, name), names, &belongs_to_set),
            wanted: applies.then(|| PodGroupSpec { packing, ..spec(&expansion, &gang, &pods) }),
            pods,
            relies_on_key,
            choice: choices.remove(name).unwrap_or_default(),
        };
        pod_groups.decide(state, now);
    }
    pod_groups
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
fn pods(
    gang: &Gang<'_>,
    live: Option<&PodGang>,
    cached: impl Fn(&str) -> Option<Arc<PodClique>>,
) -> GangPods {
    let mut pods = GangPods::of_gang(live);
    for clique in &gang.cliques {
        let name = clique.name.as_str();
        pods.insert(name, clique.min_available, clique.replicas, cached(name).as_deref());
    }
    pods
}

/// The fields of the `PodGroup`. The priority of the gang is that of the set; otherwise that of its pods, if all have the same one.
fn spec(expansion: &SetExpansion<'_>, gang: &Gang<'_>, pods: &GangPods) -> PodGroupSpec {
    let of_set = &expansion.set.spec.template.priority_class_name;
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
fn packing(expansion: &SetExpansion<'_>, replica: &SetReplica, gang: &Gang<'_>) -> (Option<PackRecord>, bool) {
    let constraints = expansion.topologies.of_gang(gang.name.as_str());
    if matches!(constraints, GangConstraints::None) {
        return (None, false);
    }
    let depth =
        |key: &str| if let GangConstraints::Of(constraints) = constraints { constraints.depth(key) } else { None };
    let spec = constrained_spec(expansion, replica, gang);
    let packing = GangPacking::of(&spec);
    let key = packing.key(depth).map(str::to_owned);
    (digest(&spec).map(|constraints| PackRecord { key, constraints }), packing.relies_on_key())
}
