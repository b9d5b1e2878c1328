//! Reads the gangs and the cliques of a set from the caches, and decides which `PodGroup`s of the workload API the gangs have. It sends no
//! requests.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{Gang, SetReplica};
use grove_api_types::labels;
use grove_api_types::pod_group::{PodGroupRef, PodGroupSpec};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observed::{Observed, SetExpansion};
use crate::incarnations::{GangState, Incarnations, PodGroups, cliques_of_gang};

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
    let expansion = observed.expand();
    for gang in expansion.replicas.iter().flat_map(SetReplica::gangs) {
        let name = gang.name.as_str();
        let live = observed.children.get::<PodGang>(name).filter(|live| !is_terminating(&***live));
        // The cliques of a gang that does not exist show whether their pods have a PodGroup.
        if !applies && live.is_some_and(|live| !live.annotations().contains_key(labels::POD_GROUP)) {
            continue;
        }
        let names = gang.cliques.iter().map(|clique| clique.name.as_str());
        let state = GangState {
            gang: name,
            live: live.and_then(|live| PodGroupRef::of_gang(live)),
            cliques: cliques_of_gang(cliques, (&namespace, name), names, &belongs_to_set),
            wanted: applies.then(|| spec(&expansion, &gang, |name| cliques.get(&namespace, name))),
            choice: choices.remove(name).unwrap_or_default(),
        };
        pod_groups.decide(state, now);
    }
    pod_groups
}

/// The fields of the `PodGroup`. A clique that was scaled below its minimum cannot have that many pods. The priority of the gang is that of
/// the set; otherwise that of its pods, if all have the same one.
fn spec(
    expansion: &SetExpansion<'_>,
    gang: &Gang<'_, '_>,
    cached: impl Fn(&str) -> Option<Arc<PodClique>>,
) -> PodGroupSpec {
    let minima = gang.cliques.iter().map(|clique| {
        let minimum = expansion.retained_minima.min_available(clique);
        let replicas = cached(clique.name.as_str()).map_or(clique.replicas, |clique| clique.spec.replicas);
        minimum.min(replicas).max(0)
    });
    let of_set = &expansion.set.spec.template.priority_class_name;
    let mut of_pods = gang.cliques.iter().map(|clique| clique.template.spec.pod_spec.string("priorityClassName"));
    let of_first = of_pods.next().flatten().filter(|first| of_pods.all(|other| other == Some(*first)));
    let priority = Some(of_set.as_str()).filter(|name| !name.is_empty()).or(of_first);
    PodGroupSpec {
        min_count: minima.fold(0, i32::saturating_add),
        priority_class_name: priority.filter(|name| !name.is_empty()).map(str::to_owned),
    }
}
