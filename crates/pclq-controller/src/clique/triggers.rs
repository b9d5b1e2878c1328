//! Predicates and mappers from pods to the cliques that they trigger.

use grove_api_types::ownership::controller_of;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::predicates;
use grove_controller::slim_pod::SlimPod;
use grove_controller::triggers::{self, Trigger};
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::gangs::may_open_gates;
use crate::pod::labelled_clique;
use crate::update;

/// The cliques of a pod.
pub(super) fn cliques_of_pod(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> Vec<Trigger<PodClique>> {
    let needs_reconcile =
        needs_reconcile(delta) || may_open_gates(cliques, delta) || update::may_be_next_turn(cliques, delta);
    owning_cliques(delta).into_iter().map(|clique| Trigger::new(needs_reconcile, clique)).collect()
}

/// The clique, if its status has just shown the begin of an update.
pub(super) fn clique_of_update(delta: &Delta<PodClique>) -> Option<Trigger<PodClique>> {
    let clique = delta.new.as_deref().filter(|_| update::has_begun(delta))?;
    Some(Trigger::Reconcile(ObjectRef::from_obj(clique)))
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
