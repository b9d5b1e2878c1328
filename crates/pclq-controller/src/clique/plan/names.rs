//! The name of the pod that comes next at an index: a function of the pods seen before it.
//!
//! Whatever part of the past a cache has seen, as long as it saw the last pod of an index go, it arrives at the same
//! next name; and what was asked for, and neither answered nor seen, is asked for again. So what a stale cache creates
//! again is answered with a conflict and never becomes a second pod.

use grove_api_types::names::{PodCliqueName, PodName};
use grove_controller::slim::SlimPod;
use kube::ResourceExt;

use crate::clique::observed::{self, Observed};
use crate::memory::{Asked, Recollection};

/// How many names of a sequence are looked through for the one that a pod was given. A sequence is only gone along
/// when a name is taken, which for five random characters hardly ever happens twice.
const SEQUENCE: usize = 8;

/// The name for the next pod at `index`.
pub(super) fn for_index(seen: &Observed, index: i32) -> PodName {
    let Recollection { asked, refused, told: _ } = &seen.remembered;
    if let Some(Asked { name, uid: _, lists: _ }) = asked.get(&index).filter(|asked| !refused.contains(&asked.name)) {
        return PodName::new(name);
    }
    let clique = seen.name();
    let replaces = latest(seen, &clique, index).and_then(|pod| pod.metadata.uid.as_deref());
    let taken = |name: &PodName| refused.contains(name.as_str()) || seen.ever_seen().any(|pod| is_named(pod, name));
    let name = PodName::candidates(&clique, seen.uid(), index, replaces).find(|name| !taken(name));
    name.unwrap_or(PodName::new(clique))
}

/// The last of the pods that had the index: the one that no other of them succeeded.
fn latest<'a>(seen: &'a Observed, clique: &PodCliqueName, index: i32) -> Option<&'a SlimPod> {
    let of_index: Vec<_> = seen.ever_seen().filter(|pod| observed::index(pod) == Some(index)).collect();
    let succeeded = |pod: &SlimPod| {
        PodName::candidates(clique, seen.uid(), index, pod.metadata.uid.as_deref())
            .take(SEQUENCE)
            .any(|name| of_index.iter().any(|other| is_named(other, &name)))
    };
    let age = |pod: &&SlimPod| (pod.metadata.creation_timestamp.clone(), pod.metadata.uid.clone());
    let last = of_index.iter().copied().filter(|pod| !succeeded(pod)).max_by_key(age);
    last.or_else(|| of_index.iter().copied().max_by_key(age))
}

fn is_named(pod: &SlimPod, name: &PodName) -> bool {
    pod.name_any() == name.as_str()
}
