//! The snapshot of a set and its children: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{CurrentScale, object_count};
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::children::ByName;
use crate::children::autoscaler::Autoscaler;

/// A set and the children that it controls, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The set, with Grove's defaults applied.
    pub(crate) set: PodCliqueSet,
    /// The fields that the user set and that no service supports.
    pub(crate) unsupported_fields: Vec<String>,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// Its cliques outside of scaling groups.
    pub(crate) cliques: ByName<PodClique>,
    /// Its scaling groups.
    pub(crate) groups: ByName<PodCliqueScalingGroup>,
    /// Its gangs.
    pub(crate) gangs: ByName<PodGang>,
    /// Its Services.
    pub(crate) services: ByName<Service>,
    /// Its autoscalers.
    pub(crate) autoscalers: ByName<Autoscaler>,
    /// The scaling groups that have lost their owner reference and carry the labels of the set. The set adopts them; until
    /// then their scale and status count like those of its own groups.
    pub(crate) adoptable_groups: ByName<PodCliqueScalingGroup>,
    /// The objects that have the name of a child and that the set does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The children whose creates were rejected, and that are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The children that were created and that the caches do not have yet.
    pub(crate) pending_creates: PendingCreates,
}

impl Observed {
    /// Whether the set expands to more objects than any cluster holds. Such a set is not expanded at all, because the
    /// expansion would exhaust the memory.
    pub(crate) fn is_too_large(&self) -> bool {
        let groups = self.groups.values().chain(self.adoptable_groups.values()).map(|group| group.spec.replicas);
        let cliques = self.cliques.values().map(|clique| clique.spec.replicas);
        let (clique, group) = (cliques.max().unwrap_or(0), groups.max().unwrap_or(0));
        object_count::may_be_too_large(&self.set, clique, group)
            && object_count::is_too_large(&self.set, &self.current_scale())
    }

    /// Whether the set has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.set)
    }

    /// The name of the set.
    pub(crate) fn name(&self) -> PodCliqueSetName {
        PodCliqueSetName::new(self.set.name_any())
    }

    /// The name conflicts, ready to be resolved. A child without an owner that carries all `base_labels` is adopted.
    pub(crate) fn conflicts<'a>(
        &'a self,
        base_labels: &'a BTreeMap<String, String>,
    ) -> NameConflicts<'a, PodCliqueSet> {
        NameConflicts { owner: &self.set, conflicts: &self.name_conflicts, labels: base_labels }
    }

    /// The scaling group of this name, if it exists and is not terminating.
    pub(crate) fn active_group(&self, name: &PodCliqueScalingGroupName) -> Option<&PodCliqueScalingGroup> {
        let group = self.groups.get(name.as_str()).or_else(|| self.adoptable_groups.get(name.as_str()))?;
        (!is_terminating(&**group)).then_some(group)
    }

    /// The current replica counts of the existing cliques and scaling groups, which their scale subresources may have
    /// changed.
    pub(crate) fn current_scale(&self) -> CurrentScale {
        let groups = self.groups.values().chain(self.adoptable_groups.values()).map(AsRef::as_ref);
        CurrentScale::of(groups, self.cliques.values().map(AsRef::as_ref))
    }
}
