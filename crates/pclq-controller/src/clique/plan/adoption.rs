//! Restores the owner reference and the labels of pods from which users have removed them.
//!
//! An orphan is a pod that may be adopted ([`is_adoptable`](grove_api_types::ownership::is_adoptable)) and has the labels `managed-by`
//! and pod clique of this clique (`observe.rs`, `pod::labelled_clique`). Before the adoption, the executor reads the clique and the pod from the API
//! server (`Executor::adopt`).

use grove_api_types::labels;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::pod_group;
use grove_controller::plan::{Step, Target};
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::clique::desired::{self, FirstPods};
use crate::clique::observed::Observed;
use crate::observed::CliqueIdentity;
use crate::pod;
use crate::stage::MAX_STEPS;

/// Adoptions of the orphans that carry the labels of the clique.
pub(super) fn adoptions(observed: &Observed) -> impl Iterator<Item = Step> {
    let reference = controller_owner_reference(&observed.clique);
    let adopt = move |pod: &SlimPod| Step::adopt(&observed.clique, Target::of(pod), reference.clone());
    observed.orphans.iter().map(move |pod| adopt(pod))
}

/// Patches of the pods in which a label of Grove is missing or has another value.
pub(super) fn restore_labels(observed: &Observed, identity: &CliqueIdentity, retained: &[&SlimPod]) -> Vec<Step> {
    let common = desired::common_labels(observed, identity);
    let first_pods = FirstPods::of(&observed.clique);
    let own = retained.iter().filter(|pod| observed.owns(pod));
    own.filter_map(|pod| {
        let number = pod::index(pod)?;
        let (index, first_pods) = (number.to_string(), first_pods.labels(number));
        let of_pod = pod.pod_group().and_then(|group| pod_group::number(identity.gang.as_str(), group));
        let incarnation = of_pod.map(|number| number.incarnation.to_string());
        let desired = common.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let desired = desired.chain([(labels::POD_INDEX, index.as_str())]);
        let desired = desired.chain(first_pods.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let desired = desired.chain(incarnation.iter().map(|number| (labels::POD_GANG_INCARNATION, number.as_str())));
        let lost = desired.filter(|(key, value)| pod.labels().get(*key).map(String::as_str) != Some(*value));
        let lost: Map<String, Value> = lost.map(|(key, value)| (key.to_owned(), value.into())).collect();
        let change = || json!({ "metadata": { "labels": lost } });
        (!lost.is_empty()).then(|| Step::merge_patch_with_optimistic_lock(*pod, change()))
    })
    .take(MAX_STEPS)
    .collect()
}
