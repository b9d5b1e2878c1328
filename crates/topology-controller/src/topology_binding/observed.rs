//! The snapshot of a binding and of its topology objects of schedulers: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::{ClusterTopologyBinding, SchedulerTopologyBinding, SchedulerTopologyStatus};
use grove_controller::children::ObservedChildren;
use grove_controller::conditions::ConditionUpdate;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use kube::ResourceExt;

use crate::scheduler_topologies::{
    ObservedSchedulerTopology, TopologyExpansion, drift_condition, managed_schedulers, status_of,
};

/// A binding, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The binding.
    pub(crate) binding: ClusterTopologyBinding,
    /// The topology objects of the configured schedulers. Empty if topology-aware scheduling is disabled.
    pub(crate) scheduler_topologies: Vec<ObservedSchedulerTopology>,
    /// Whether the configuration enables topology-aware scheduling.
    pub(crate) is_enabled: bool,
    /// The topology objects that the binding controls.
    pub(crate) children: ObservedChildren,
    /// The objects that have the name of a topology object and that the binding does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The topology objects that the API server rejected. They are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The topology objects that were created and that the caches do not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// Whether its deletion keeps its topology objects.
    pub(crate) orphans_children: bool,
}

impl Observed {
    /// Whether the binding has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.binding)
    }

    /// The binding with everything that its topology objects are computed from.
    pub(crate) fn expand(&self) -> TopologyExpansion {
        TopologyExpansion {
            name: self.binding.name_any(),
            owner_references: controller_owner_reference(&self.binding),
            node_labels: self.node_labels(),
            managed: managed_schedulers(&self.scheduler_topologies),
        }
    }

    /// The node labels of the levels.
    pub(crate) fn node_labels(&self) -> Vec<String> {
        Topology::from(&self.binding).levels.into_iter().map(|level| level.key).collect()
    }

    /// The entries that name a scheduler that is not configured or has no topology objects. Admission denies them, so they remain only from an
    /// earlier configuration.
    pub(crate) fn unavailable(&self) -> impl Iterator<Item = &SchedulerTopologyBinding> {
        let is_known = |external: &&SchedulerTopologyBinding| {
            let mut known = self.scheduler_topologies.iter().map(|topology| topology.scheduler.name());
            known.any(|name| name == external.scheduler_name)
        };
        let bindings = self.binding.spec.scheduler_topology_bindings.iter();
        bindings.filter(move |external| self.is_enabled && !is_known(external))
    }

    /// The statuses of the topology objects of configured schedulers.
    pub(crate) fn available(&self) -> Vec<SchedulerTopologyStatus> {
        let labels = self.node_labels();
        let topologies = self.scheduler_topologies.iter();
        topologies.map(|topology| status_of(topology, &self.binding, &labels)).collect()
    }

    /// The condition about the topology objects of schedulers.
    pub(crate) fn drift(&self) -> Option<ConditionUpdate> {
        let is_unavailable = self.unavailable().next().is_some();
        drift_condition(&self.available(), is_unavailable, self.binding.metadata.generation)
    }

    /// The name conflicts, ready to be resolved. Without labels, no object is adopted.
    pub(crate) fn conflicts<'a>(
        &'a self,
        no_labels: &'a BTreeMap<String, String>,
    ) -> NameConflicts<'a, ClusterTopologyBinding> {
        NameConflicts { owner: &self.binding, conflicts: &self.name_conflicts, labels: no_labels }
    }
}
