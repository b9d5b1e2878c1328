//! Restores the owner reference and the labels of pods from which users have removed them.
//!
//! An orphan is a pod without a controller that is not terminating and has the labels `managed-by` and pod clique of this
//! clique (`observe.rs`, `pod::labelled_clique`). Before the adoption, the executor reads the clique and the pod from the API
//! server (`Executor::adopt`).

use grove_api_types::ownership::controller_owner_reference;
use grove_controller::plan::{Step, Target};
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::clique::desired;
use crate::clique::observed::{CliqueIdentity, Observed};
use crate::pod;

/// Adoptions of the orphans that carry the labels of the clique.
pub(super) fn adoptions(observed: &Observed) -> impl Iterator<Item = Step> {
    let reference = controller_owner_reference(&observed.clique);
    let adopt = move |pod: &SlimPod| Step::adopt(&observed.clique, Target::of(pod), reference.clone());
    observed.orphans.iter().map(move |pod| adopt(pod))
}

/// Patches of the pods in which a label of Grove is missing or has another value.
pub(super) fn restore_labels(observed: &Observed, identity: &CliqueIdentity, retained: &[&SlimPod]) -> Vec<Step> {
    let own = retained.iter().filter(|pod| observed.owns(pod));
    own.filter_map(|pod| {
        let desired = desired::own_labels(observed, identity, pod::index(pod)?);
        let lost = desired.into_iter().filter(|(key, value)| pod.labels().get(key) != Some(value));
        let lost: Map<String, Value> = lost.map(|(key, value)| (key, value.into())).collect();
        let change = || json!({ "metadata": { "labels": lost } });
        (!lost.is_empty()).then(|| Step::merge_patch_with_optimistic_lock(*pod, change()))
    })
    .collect()
}
