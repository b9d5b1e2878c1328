//! The cliques that a change of a gang triggers, and the changes of pods and cliques after which a gating gang may be scheduled.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::controller::ControllerBuilder;
use grove_controller::slim_pod::SlimPod;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::gated_cliques::gates_cliques;
use super::gating_gangs::GatingGangs;

/// Adds the changes of gangs: see [`cliques_of_gang`]; and the changes of gangs and cliques after which a gating gang has another state.
pub(crate) fn watch(
    controller: ControllerBuilder<PodClique>,
    gating_gangs: &GatingGangs,
    gangs: &Cache<PodGang>,
    cliques: &Cache<PodClique>,
) -> ControllerBuilder<PodClique> {
    let [for_gangs, for_cliques] = [(); 2].map(|()| (gating_gangs.clone(), cliques.clone()));
    let all_gangs = gangs.clone();
    controller
        .watches(gangs.subscribe().flat_map(move |delta| {
            let (gating_gangs, cliques) = &for_gangs;
            let gated = gating_gangs.observe_gang(cliques, &all_gangs, &delta).into_iter().map(Trigger::Reconcile);
            stream::iter(gated.chain(cliques_of_gang(&delta)))
        }))
        .watches(cliques.subscribe().flat_map(move |delta| {
            let (gating_gangs, cliques) = &for_cliques;
            stream::iter(gating_gangs.observe_clique(cliques, &delta)).map(Trigger::Reconcile)
        }))
}

/// Whether the pod has just been assigned to a node, and pods of any clique are gated until its gang is scheduled.
pub(crate) fn may_open_gates(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> bool {
    was_scheduled(delta) && gates_any_clique(cliques, delta)
}

/// Whether the pod has just been assigned to a node.
fn was_scheduled(delta: &Delta<SlimPod>) -> bool {
    let is_scheduled = |pod: &Option<Arc<SlimPod>>| pod.as_deref().is_some_and(SlimPod::is_scheduled);
    is_scheduled(&delta.new) && !is_scheduled(&delta.old)
}

/// Whether pods of any clique are gated until the gang of the pod is scheduled.
fn gates_any_clique(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> bool {
    let gang = |pod: &SlimPod| Some((pod.namespace()?, pod.labels().get(labels::POD_GANG)?.clone()));
    let gang = delta.new.as_deref().and_then(gang);
    gang.is_some_and(|(namespace, gang)| gates_cliques(cliques, &namespace, &gang))
}

/// The cliques of the changed pod groups. They need a reconcile if the gang was created or deleted, or its `PodGroup` was decided; another
/// change of their pod groups only changes their status.
pub(crate) fn cliques_of_gang(delta: &Delta<PodGang>) -> Vec<Trigger<PodClique>> {
    let [old, new] = [&delta.old, &delta.new].map(|gang| active(gang.as_deref()));
    let is_replaced = uid(old) != uid(new);
    let mut names = changed_pod_groups(delta);
    let annotation = |gang: Option<&PodGang>, key| gang.and_then(|gang| gang.annotations().get(key).cloned());
    let has_other = |key| annotation(old, key) != annotation(new, key);
    let has_other_pod_group =
        old.is_some() && new.is_some() && (has_other(labels::POD_GROUP) || has_other(labels::POD_GROUP_SPEC));
    if has_other_pod_group {
        names.extend(pod_groups(new).iter().map(|group| group.name.as_str()));
    }
    let namespace = delta.object().and_then(|gang| gang.namespace()).unwrap_or_default();
    let clique = |name| ObjectRef::new(name).within(&namespace);
    names.into_iter().map(|name| Trigger::new(is_replaced || has_other_pod_group, clique(name))).collect()
}

/// The gang if it exists and is not terminating.
fn active(gang: Option<&PodGang>) -> Option<&PodGang> {
    gang.filter(|gang| !is_terminating(*gang))
}

fn uid(gang: Option<&PodGang>) -> Option<&str> {
    gang?.metadata.uid.as_deref()
}

fn pod_groups(gang: Option<&PodGang>) -> &[GangPodGroup] {
    gang.map(|gang| gang.spec.podgroups.as_slice()).unwrap_or_default()
}

/// The names of the pod groups that differ from those at the same position, and of all groups of a replaced gang. A change of the phase or the
/// conditions of a gang triggers no clique.
pub(crate) fn changed_pod_groups(delta: &Delta<PodGang>) -> BTreeSet<&str> {
    let [old, new] = [&delta.old, &delta.new].map(|gang| active(gang.as_deref()));
    let (old_groups, new_groups) = (pod_groups(old), pod_groups(new));
    let is_replaced = uid(old) != uid(new);
    let positions = 0..old_groups.len().max(new_groups.len());
    let both = positions.map(|at| [old_groups.get(at), new_groups.get(at)]);
    let changed = both.filter(|[before, after]| is_replaced || before != after);
    changed.flatten().flatten().map(|group| group.name.as_str()).collect()
}
