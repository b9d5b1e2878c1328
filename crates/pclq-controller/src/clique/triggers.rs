//! Predicates and mappers from pods and gangs to the cliques that they trigger.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::ownership::controller_of;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::predicates;
use grove_controller::slim_pod::SlimPod;
use grove_controller::triggers::{self, Trigger};
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::gated_cliques::gates_cliques;
use crate::pod::labelled_clique;

/// The cliques of a pod.
pub(super) fn cliques_of_pod(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> Vec<Trigger<PodClique>> {
    let needs_reconcile = needs_reconcile(delta) || (was_scheduled(delta) && gates_any_clique(cliques, delta));
    owning_cliques(delta).into_iter().map(|clique| Trigger::new(needs_reconcile, clique)).collect()
}

/// The current and the previous controller of the pod; for a pod without controller, the clique that could adopt it.
pub(super) fn owning_cliques(delta: &Delta<SlimPod>) -> Vec<ObjectRef<PodClique>> {
    let mut cliques = triggers::controllers_of(delta);
    let orphan = delta.new.iter().filter(|pod| controller_of(pod.meta()).is_none());
    for pod in orphan {
        let namespace = pod.namespace().unwrap_or_default();
        let labelled = labelled_clique(pod.meta()).map(|name| ObjectRef::new(name).within(&namespace));
        cliques.extend(labelled.filter(|labelled| !cliques.contains(labelled)));
    }
    cliques
}

/// The clique of a pod that could not be decoded: its controller; for a pod without controller, the clique that its labels name.
pub(super) fn clique_of_unreadable_pod(pod: &ObjectMeta) -> Option<ObjectRef<PodClique>> {
    if controller_of(pod).is_some() {
        return triggers::controller(pod);
    }
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    labelled_clique(pod).map(|name| ObjectRef::new(name).within(namespace))
}

/// Whether the change of a pod may require another pod or a repair. A creation, and progress of a live pod, only change
/// the status of the clique.
pub(super) fn needs_reconcile(delta: &Delta<SlimPod>) -> bool {
    let Delta { old: Some(old), new: Some(new) } = delta else { return delta.is_delete() };
    old.is_live() != new.is_live() || predicates::metadata_or_generation_changed_ignoring_additions(delta)
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
pub(super) fn cliques_of_gang(delta: &Delta<PodGang>) -> Vec<Trigger<PodClique>> {
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

fn pod_groups(gang: Option<&PodGang>) -> &[PodGroup] {
    gang.map(|gang| gang.spec.podgroups.as_slice()).unwrap_or_default()
}

/// The names of the pod groups that differ from those at the same position, and of all groups of a replaced gang. A change of the phase or the
/// conditions of a gang triggers no clique.
pub(super) fn changed_pod_groups(delta: &Delta<PodGang>) -> BTreeSet<&str> {
    let [old, new] = [&delta.old, &delta.new].map(|gang| active(gang.as_deref()));
    let (old_groups, new_groups) = (pod_groups(old), pod_groups(new));
    let is_replaced = uid(old) != uid(new);
    let positions = 0..old_groups.len().max(new_groups.len());
    let both = positions.map(|at| [old_groups.get(at), new_groups.get(at)]);
    let changed = both.filter(|[before, after]| is_replaced || before != after);
    changed.flatten().flatten().map(|group| group.name.as_str()).collect()
}
