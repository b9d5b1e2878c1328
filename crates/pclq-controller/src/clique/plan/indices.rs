//! Which pods stay, which go, and which indices are to be filled, so that live indices are dense from 0.

use std::collections::BTreeMap;

use grove_controller::slim::SlimPod;

use crate::clique::observed::{self, Observed};

/// The decision about every live pod and every wanted index.
pub(super) struct Indices<'a> {
    /// Live pods that stay, sorted by index.
    pub(super) kept: Vec<&'a SlimPod>,
    /// Live pods that go: the highest indices, seconds of one index, and those without any.
    pub(super) surplus: Vec<&'a SlimPod>,
    /// Indices without a live pod, lowest first.
    pub(super) free: Vec<i32>,
}

impl<'a> Indices<'a> {
    pub(super) fn of(seen: &'a Observed) -> Self {
        let mut surplus = Vec::new();
        let mut by_index: BTreeMap<i32, &SlimPod> = BTreeMap::new();
        for pod in oldest_first(seen) {
            match observed::index(pod) {
                Some(index) if !by_index.contains_key(&index) => {
                    by_index.insert(index, pod);
                }
                Some(_) | None => surplus.push(pod),
            }
        }
        // Exactly the indices below the replica count: ranks must have no holes, whatever was lost while scaling in.
        let wanted = seen.clique.spec.replicas.max(0);
        let beyond = by_index.split_off(&wanted);
        surplus.extend(beyond.into_values().rev());
        let free = (0..wanted).filter(|index| !by_index.contains_key(index)).collect();
        let kept = by_index.into_values().collect();
        Self { kept, surplus, free }
    }
}

fn oldest_first(seen: &Observed) -> Vec<&SlimPod> {
    let mut pods: Vec<_> = seen.live().collect();
    pods.sort_by_key(|pod| {
        let metadata = &pod.metadata;
        (metadata.creation_timestamp.clone(), metadata.uid.clone())
    });
    pods
}
