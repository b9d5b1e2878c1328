//! Whose pods these are: owner and labels that were edited away come back.

use grove_api_types::ownership::controller_owner_reference;
use grove_controller::plan::{Step, Target};
use grove_controller::slim::SlimPod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::clique::desired;
use crate::clique::observed::{self, Lineage, Observed};

/// Adoptions of the pods that carry the labels of the clique and have no owner.
pub(super) fn adoptions(seen: &Observed) -> impl Iterator<Item = Step> {
    let reference = controller_owner_reference(&seen.clique);
    let adopt = move |pod: &SlimPod| Step::adopt(&seen.clique, Target::of(pod), reference.clone());
    seen.unowned.iter().map(move |pod| adopt(pod))
}

/// Patches of the pods that lack a label of Grove's own, or have another value in it.
pub(super) fn lost_labels(seen: &Observed, lineage: &Lineage, kept: &[&SlimPod]) -> Vec<Step> {
    let own = kept.iter().filter(|pod| seen.owns(pod));
    own.filter_map(|pod| {
        let wanted = desired::own_labels(seen, lineage, observed::index(pod)?);
        let lost = wanted.into_iter().filter(|(key, value)| pod.labels().get(key) != Some(value));
        let lost: Map<String, Value> = lost.map(|(key, value)| (key, value.into())).collect();
        let change = || json!({ "metadata": { "labels": lost } });
        (!lost.is_empty()).then(|| Step::merge_patch_with_optimistic_lock(*pod, change()))
    })
    .collect()
}
