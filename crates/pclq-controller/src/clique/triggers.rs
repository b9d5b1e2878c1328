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

use crate::pod::labelled_clique;
use crate::scaled_cliques::scaled_cliques_of;

/// The cliques of a pod.
pub(super) fn cliques_of_pod(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> Vec<Trigger<PodClique>> {
    let needs_reconcile = needs_reconcile(delta) || (was_scheduled(delta) && has_scaled_cliques(cliques, delta));
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

/// Whether pods of scaled cliques are gated until the gang of the pod is scheduled.
fn has_scaled_cliques(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> bool {
    let gang = |pod: &SlimPod| Some((pod.namespace()?, pod.labels().get(labels::POD_GANG)?.clone()));
    let gang = delta.new.as_deref().and_then(gang);
    gang.is_some_and(|(namespace, gang)| !scaled_cliques_of(cliques, &namespace, &gang).is_empty())
}

/// The cliques of the changed pod groups, and the scaled cliques of the gang. The cliques of the pod groups need a reconcile
/// if the gang was created or deleted; another change of their pod groups only changes their status.
pub(super) fn cliques_of_gang(cliques: &Cache<PodClique>, delta: &Delta<PodGang>) -> Vec<Trigger<PodClique>> {
    let gang_cliques = cliques_of_changed_pod_groups(delta);
    let gang = delta.object().filter(|_| !gang_cliques.is_empty());
    let scaled = gang.map(|gang| scaled_cliques_of(cliques, &gang.namespace().unwrap_or_default(), &gang.name_any()));
    let needs_reconcile = active_uid(delta.old.as_deref()) != active_uid(delta.new.as_deref());
    let gang_cliques = gang_cliques.into_iter().map(move |clique| Trigger::new(needs_reconcile, clique));
    gang_cliques.chain(scaled.into_iter().flatten().map(Trigger::Reconcile)).collect()
}

/// The uid of the gang if it exists and is not terminating.
fn active_uid(gang: Option<&PodGang>) -> Option<&str> {
    gang.filter(|gang| !is_terminating(*gang))?.metadata.uid.as_deref()
}

/// The cliques of the pod groups that were added, removed, moved or changed, or of a replaced gang. If a pod group has another name, also
/// those of the groups behind it: their shares of the pod references depend on it. A change of the phase or the conditions of a gang
/// triggers no clique.
pub(super) fn cliques_of_changed_pod_groups(delta: &Delta<PodGang>) -> Vec<ObjectRef<PodClique>> {
    let (old, new) = (pod_groups(delta.old.as_deref()), pod_groups(delta.new.as_deref()));
    let changed = old.iter().filter(|group| !new.contains(group));
    let changed = changed.chain(new.iter().filter(|group| !old.contains(group)));
    let unchanged_names = old.iter().zip(&new).take_while(|((.., before), (.., after))| before.name == after.name);
    let changed = changed.chain(new.iter().skip(unchanged_names.count()));
    let names: BTreeSet<&str> = changed.map(|(_, _, group)| group.name.as_str()).collect();
    let namespace = delta.object().and_then(|gang| gang.namespace()).unwrap_or_default();
    names.into_iter().map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

/// The pod groups of an active gang with the uid of the gang and their positions: the preconditions of a patch of the pod
/// references.
fn pod_groups(gang: Option<&PodGang>) -> Vec<(Option<String>, usize, &PodGroup)> {
    let active = gang.filter(|gang| !is_terminating(*gang));
    let uid = active.and_then(ResourceExt::uid);
    let groups = active.into_iter().flat_map(|gang| gang.spec.podgroups.iter().enumerate());
    groups.map(|(at, group)| (uid.clone(), at, group)).collect()
}
