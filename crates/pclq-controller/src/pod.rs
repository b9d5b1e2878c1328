//! The identity of a pod: its index within its clique, its predecessors at the index, and the clique that it belongs to.

use std::collections::BTreeSet;

use grove_api_types::labels;
use grove_api_types::names::{PodCliqueName, PodName};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::slim_pod::SlimPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// How many candidates of a pod's name are compared. A later candidate is used only after a name conflict, which five
/// random characters make very unlikely to happen twice.
const MAX_CANDIDATES: usize = 8;

/// Whether a clique controls the pod, or could adopt it.
pub(crate) fn is_grove_pod(pod: &SlimPod) -> bool {
    match controller_of(pod.meta()) {
        Some(owner) => is_of_kind::<PodClique>(owner),
        None => labelled_clique(pod.meta()).is_some(),
    }
}

/// The clique that the labels of the pod name, if Grove manages the pod.
pub(crate) fn labelled_clique(pod: &ObjectMeta) -> Option<&str> {
    let labels = pod.labels.as_ref()?;
    let managed = labels.get(labels::MANAGED_BY).is_some_and(|manager| manager == labels::GROVE_OPERATOR);
    labels.get(labels::POD_CLIQUE).filter(|_| managed).map(String::as_str)
}

/// The index of a pod within its clique: the end of its hostname, which cannot change, otherwise its label.
pub(crate) fn index(pod: &SlimPod) -> Option<i32> {
    let hostname = pod.spec.hostname.as_deref().and_then(|host| host.rsplit_once('-')).map(|(_, index)| index);
    let label = || pod.labels().get(labels::POD_INDEX).map(String::as_str);
    hostname.and_then(parse_index).or_else(|| label().and_then(parse_index))
}

fn parse_index(index: &str) -> Option<i32> {
    index.parse().ok().filter(|index| *index >= 0)
}

/// The last of the pods that had the index: the one without a successor among them. The name of a pod follows from its predecessor.
/// A creation time is in whole seconds, so a pod and its successor can have equal creation times.
pub(crate) fn latest<'a>(clique: &PodClique, index: i32, of_index: &[&'a SlimPod]) -> Option<&'a SlimPod> {
    if let [only] = of_index {
        return Some(only);
    }
    let (clique, clique_uid) =
        (PodCliqueName::new(clique.name_any()), clique.metadata.uid.as_deref().unwrap_or_default());
    let names: BTreeSet<_> = of_index.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let has_successor = |pod: &SlimPod| {
        PodName::candidates(&clique, clique_uid, index, pod.metadata.uid.as_deref())
            .take(MAX_CANDIDATES)
            .any(|name| names.contains(name.as_str()))
    };
    let age = |pod: &&SlimPod| (pod.metadata.creation_timestamp.clone(), pod.metadata.uid.clone());
    let last = of_index.iter().copied().filter(|pod| !has_successor(pod)).max_by_key(age);
    last.or_else(|| of_index.iter().copied().max_by_key(age))
}
