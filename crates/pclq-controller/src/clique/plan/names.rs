//! Chooses the name of the next pod at an index: a function of the pods that had the index before. [`PodName::candidates`]
//! computes the names from which it chooses.
//!
//! Every stale cache that contains the last pod of an index, or its tombstone, leads to the same next name. A create
//! without a response is repeated under the same name until the cache has its pod. So a repeated create ends in a conflict and
//! never in a second pod.

use grove_api_types::names::{PodCliqueName, PodName};
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;

use crate::clique::observed::Observed;
use crate::pod;
use crate::write_history::CliqueWrites;

/// How many candidates of a pod's name are compared. A later candidate is used only after a name conflict, which five
/// random characters make very unlikely to happen twice.
const MAX_CANDIDATES: usize = 8;

/// The name for the next pod at `index`.
pub(super) fn for_index(observed: &Observed, index: i32) -> PodName {
    let CliqueWrites { created_names, conflicting_names, references_written_at: _ } = &observed.own_writes;
    if let Some(name) = created_names.get(&index).filter(|name| !conflicting_names.contains(*name)) {
        return PodName::new(name);
    }
    let clique = observed.name();
    let replaces = latest(observed, &clique, index).and_then(|pod| pod.metadata.uid.as_deref());
    let is_taken = |name: &PodName| {
        conflicting_names.contains(name.as_str()) || observed.known_pods().any(|pod| is_named(pod, name))
    };
    let name = PodName::candidates(&clique, observed.uid(), index, replaces).find(|name| !is_taken(name));
    name.unwrap_or(PodName::new(clique))
}

/// The last of the pods that had the index: the one without a successor among them.
fn latest<'a>(observed: &'a Observed, clique: &PodCliqueName, index: i32) -> Option<&'a SlimPod> {
    let of_index: Vec<_> = observed.known_pods().filter(|pod| pod::index(pod) == Some(index)).collect();
    let has_successor = |pod: &SlimPod| {
        PodName::candidates(clique, observed.uid(), index, pod.metadata.uid.as_deref())
            .take(MAX_CANDIDATES)
            .any(|name| of_index.iter().any(|other| is_named(other, &name)))
    };
    let age = |pod: &&SlimPod| (pod.metadata.creation_timestamp.clone(), pod.metadata.uid.clone());
    let last = of_index.iter().copied().filter(|pod| !has_successor(pod)).max_by_key(age);
    last.or_else(|| of_index.iter().copied().max_by_key(age))
}

fn is_named(pod: &SlimPod, name: &PodName) -> bool {
    pod.name_any() == name.as_str()
}
