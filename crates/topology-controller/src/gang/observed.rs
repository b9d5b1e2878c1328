//! The snapshot of a gang, its cliques and its `PodGroup`: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::children::{ByName, ObservedChildren};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use grove_runtime::caches::Availability;
use kube::ResourceExt;

use crate::pod_groups::{GangExpansion, backend};
use crate::slim_clique::SlimClique;

/// A gang, its cliques and its `PodGroup`, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The gang.
    pub(crate) gang: PodGang,
    /// The scheduler that its label names, otherwise the default scheduler.
    pub(crate) scheduler: Scheduler,
    /// The cliques that its pod groups name.
    pub(crate) cliques: ByName<SlimClique>,
    /// Whether the API server lists the `PodGroup`s of the scheduler; `None` if it has none of its own.
    pub(crate) availability: Option<Availability>,
    /// The `PodGroup`s that the gang controls.
    pub(crate) children: ObservedChildren,
    /// The objects that have the name of the `PodGroup` and that the gang does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The `PodGroup`s whose creates were rejected, and that are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The `PodGroup`s that were created and that the cache does not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// Whether its deletion keeps its `PodGroup`.
    pub(crate) orphans_children: bool,
    /// Whether its namespace is terminating. Then nothing is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

impl Observed {
    /// Whether the gang has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.gang)
    }

    /// The gang with everything that its `PodGroup` is computed from.
    pub(crate) fn expand(&self) -> GangExpansion<'_> {
        let Self { gang, scheduler, .. } = self;
        let spec = backend(*scheduler).map(|backend| match self.unavailable() {
            Some(waiting) => Err(waiting),
            None => (backend.spec)(gang),
        });
        GangExpansion { gang, scheduler: *scheduler, spec }
    }

    /// Why no `PodGroup` can be created for the scheduler.
    fn unavailable(&self) -> Option<Waiting> {
        backend(self.scheduler)?.unavailable(self.availability?)
    }

    /// Why the spec of the `PodGroup` is unknown although the API server serves the kind.
    pub(crate) fn unknown_spec(&self) -> Option<Waiting> {
        let backend = backend(self.scheduler).filter(|_| self.unavailable().is_none())?;
        (backend.spec)(&self.gang).err()
    }

    /// The name of the gang, and of its `PodGroup`.
    pub(crate) fn name(&self) -> &str {
        self.gang.metadata.name.as_deref().unwrap_or_default()
    }

    /// The labels of every object of the set.
    pub(crate) fn base_labels(&self) -> BTreeMap<String, String> {
        let set = self.gang.labels().get(labels::PART_OF).cloned().unwrap_or_default();
        labels::base(&PodCliqueSetName::new(set))
    }

    /// The name conflicts, ready to be resolved. A `PodGroup` without an owner that carries all `base_labels` is adopted.
    pub(crate) fn conflicts<'a>(&'a self, base_labels: &'a BTreeMap<String, String>) -> NameConflicts<'a, PodGang> {
        NameConflicts { owner: &self.gang, conflicts: &self.name_conflicts, labels: base_labels }
    }
}
