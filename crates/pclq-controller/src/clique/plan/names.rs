//! Chooses the name of the next pod at an index: a function of the pods that had the index before. [`PodName::candidates`]
//! computes the names from which it chooses.
//!
//! Every stale cache that contains the last pod of an index, or its tombstone, leads to the same next name. A create
//! without a response is repeated under the same name until the cache has its pod. So a repeated create ends in a conflict and
//! never in a second pod.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::names::{PodCliqueName, PodName};
use grove_controller::slim_pod::SlimPod;

use crate::clique::observed::Observed;
use crate::pod;
use crate::write_history::CliqueWrites;

/// The known pods of a clique, from which the names of the next pods follow.
pub(super) struct Names<'a> {
    observed: &'a Observed,
    clique: PodCliqueName,
    by_index: BTreeMap<i32, Vec<&'a SlimPod>>,
    existing: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(observed: &'a Observed) -> Self {
        let mut by_index: BTreeMap<i32, Vec<&SlimPod>> = BTreeMap::new();
        for pod in observed.known_pods() {
            if let Some(index) = pod::index(pod) {
                by_index.entry(index).or_default().push(pod);
            }
        }
        let existing = observed.known_pods().filter_map(name_of).collect();
        Self { observed, clique: observed.name(), by_index, existing }
    }

    /// The name for the next pod at `index`.
    pub(super) fn for_index(&self, index: i32) -> PodName {
        let CliqueWrites { created_names, conflicting_names, .. } = &self.observed.own_writes;
        if let Some(name) = created_names.get(&index).filter(|name| !conflicting_names.contains(*name)) {
            return PodName::new(name);
        }
        let replaces = self.latest(index).and_then(|pod| pod.metadata.uid.as_deref());
        let is_taken =
            |name: &PodName| conflicting_names.contains(name.as_str()) || self.existing.contains(name.as_str());
        let mut candidates = PodName::candidates(&self.clique, self.observed.uid(), index, replaces);
        candidates.find(|name| !is_taken(name)).unwrap_or_else(|| PodName::new(self.clique.as_str()))
    }

    /// The last of the pods that had the index.
    fn latest(&self, index: i32) -> Option<&'a SlimPod> {
        pod::latest(&self.observed.clique, index, self.by_index.get(&index)?)
    }
}

fn name_of(pod: &SlimPod) -> Option<&str> {
    pod.metadata.name.as_deref()
}
