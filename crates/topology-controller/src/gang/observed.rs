//! The snapshot of a gang, its cliques and its `PodGroup`: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::conditions::gang_scheduling;
use grove_api_types::configuration::NativeGangs;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueSetName, PodGangName};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::children::{ByName, ObservedChildren};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use grove_runtime::caches::Availability;
use kube::ResourceExt;

use crate::pod_groups::{DesiredPodGroup, GangExpansion, LivePodGroup, PodGroupApi, as_wanted, unreadable};
use crate::slim_clique::SlimClique;

/// A gang, its cliques and its `PodGroup`, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The gang.
    pub(crate) gang: PodGang,
    /// The configured scheduler that its label names, otherwise the default scheduler.
    pub(crate) scheduler: Scheduler,
    /// The cliques that its pod groups name.
    pub(crate) cliques: ByName<SlimClique>,
    /// The gang that must be scheduled before the `PodGroup` is created; `None` if the `PodGroup` exists or does not wait.
    pub(crate) base_gang: Option<BaseGang>,
    /// Whether the API server lists the `PodGroup`s of the scheduler; `None` if the scheduler has none.
    pub(crate) availability: Option<Availability>,
    /// Whether new incarnations of gangs use the workload API.
    pub(crate) native_gangs: NativeGangs,
    /// The `PodGroup`s that the gang controls.
    pub(crate) children: ObservedChildren,
    /// The objects that have the name of the `PodGroup` and that the gang does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The `PodGroup`s that the API server rejected. They are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The `PodGroup`s that were created and that the cache does not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// Whether its deletion keeps its `PodGroup`.
    pub(crate) orphans_children: bool,
    /// Whether its namespace is terminating. Then nothing is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

/// The base gang of a scaled gang.
#[derive(Clone, Debug)]
pub(crate) struct BaseGang {
    /// Its name.
    pub(crate) name: PodGangName,
    /// Whether it is scheduled.
    pub(crate) is_scheduled: bool,
}

impl Observed {
    /// Whether an update replaces pods of the gang.
    pub(crate) fn is_updating(&self) -> bool {
        self.gang
            .spec
            .podgroups
            .iter()
            .filter_map(|group| self.cliques.get(&group.name))
            .any(|clique| clique.is_updating())
    }

    /// Whether the gang has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.gang)
    }

    /// The gang with everything that its `PodGroup` is computed from.
    pub(crate) fn expand(&self) -> GangExpansion<'_> {
        let Self { gang, scheduler, .. } = self;
        let pod_group = PodGroupApi::of(*scheduler).zip(self.pod_group_name()).map(|(api, name)| DesiredPodGroup {
            name,
            spec: self.unavailable().map_or_else(|| api.spec(&as_wanted(gang, &self.cliques)), Err),
            delay: self.delay(),
        });
        GangExpansion { gang, scheduler: *scheduler, pod_group }
    }

    /// The name of the `PodGroup` of the gang; `None` if the gang has none.
    pub(crate) fn pod_group_name(&self) -> Option<String> {
        PodGroupApi::of(self.scheduler)?.name(&self.gang)
    }

    /// The `PodGroup` of the gang, if it exists.
    pub(crate) fn live_pod_group(&self) -> Option<LivePodGroup<'_>> {
        PodGroupApi::of(self.scheduler)?.live(&self.children, &self.pod_group_name()?)
    }

    /// Why the `PodGroup` is not created yet although the API server serves the kind. An object of its name is adopted or reported at once.
    fn delay(&self) -> Option<Waiting> {
        let is_awaited = |base_gang: &&BaseGang| !base_gang.is_scheduled && self.name_conflicts.is_empty();
        let BaseGang { name, is_scheduled: _ } = self.base_gang.as_ref().filter(is_awaited)?;
        let message = format!("the PodGroup of the gang is created once its base gang {name} is scheduled");
        Some(Waiting::new(gang_scheduling::BASE_GANG_NOT_SCHEDULED, message))
    }

    /// Why no `PodGroup` can be created for the scheduler.
    pub(crate) fn unavailable(&self) -> Option<Waiting> {
        PodGroupApi::of(self.scheduler)?.unavailable(self.availability?)
    }

    /// Why it is unknown which `PodGroup` the gang should have: its label or its annotations have values that this service cannot use.
    pub(crate) fn unreadable(&self) -> Option<Waiting> {
        self.unknown_scheduler()
            .or_else(|| PodGroupApi::of(self.scheduler)?.unreadable_annotation(&self.gang).map(unreadable))
    }

    /// The label names another scheduler than that of the gang, so it is not configured.
    fn unknown_scheduler(&self) -> Option<Waiting> {
        let key = labels::SCHEDULER_NAME;
        let name = self.gang.labels().get(key).filter(|name| *name != self.scheduler.name())?;
        let message = format!(
            "the PodGroup of the gang stays as it is: label {key} names {name:?}, which scheduler.profiles in the configuration of \
             topology-controller does not have; add it, or upgrade topology-controller"
        );
        Some(Waiting::new(gang_scheduling::SCHEDULER_UNKNOWN, message))
    }

    /// Why the spec of the `PodGroup` is unknown although the API server serves the kind.
    pub(crate) fn unknown_spec(&self) -> Option<Waiting> {
        let api = PodGroupApi::of(self.scheduler).filter(|_| self.unavailable().is_none())?;
        api.spec(&self.gang).err()
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
