//! The gangs whose references a change of a clique or of a pod may change. They have low priority, so that the changes of many pods are
//! merged.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::ownership::controller_of;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::slim_pod::SlimPod;
use grove_controller::triggers::{Trigger, controllers_of};
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::gangs::desired_pods;

/// The gang of a clique, and the one that it had before the change.
pub(super) fn gangs_of_clique(delta: &Delta<PodClique>) -> Vec<Trigger<PodGang>> {
    let facts = |clique: &PodClique| (clique.uid(), gang_of(clique), desired_pods(clique), is_terminating(clique));
    let [old, new] = [&delta.old, &delta.new].map(|clique| clique.as_deref());
    if old.map(facts) == new.map(facts) {
        return Vec::new();
    }
    let mut gangs: Vec<_> = old.into_iter().chain(new).filter_map(gang_of).collect();
    gangs.dedup();
    gangs.into_iter().map(Trigger::LowPriority).collect()
}

/// The gangs of the clique that controls the pod, and of the one that controlled it before the change.
pub(super) fn gangs_of_pod(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> Vec<Trigger<PodGang>> {
    let facts = |pod: &SlimPod| (pod.uid(), pod.is_live(), controller_of(&pod.metadata).cloned());
    let [old, new] = [&delta.old, &delta.new].map(|pod| pod.as_deref().map(facts));
    if old == new {
        return Vec::new();
    }
    let controllers = controllers_of::<_, PodClique>(delta);
    let clique = |clique: ObjectRef<PodClique>| cliques.get(clique.namespace.as_deref()?, &clique.name);
    let mut gangs: Vec<_> = controllers.into_iter().filter_map(clique).filter_map(|it| gang_of(&it)).collect();
    gangs.dedup();
    gangs.into_iter().map(Trigger::LowPriority).collect()
}

fn gang_of(clique: &PodClique) -> Option<ObjectRef<PodGang>> {
    let gang = ObjectRef::new(clique.labels().get(labels::POD_GANG)?);
    Some(gang.within(clique.metadata.namespace.as_deref()?))
}
