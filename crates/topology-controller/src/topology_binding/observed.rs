//! The snapshot of a binding, of the `ClusterTopology` of its name, and of its topology objects of schedulers: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::configuration::TopologyAwareScheduling;
use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::topology::{Topology, join_levels};
use grove_api_types::v1alpha1::{
    ClusterTopologyBinding, SchedulerTopologyBinding, SchedulerTopologyStatus, TopologyBindingLevel,
};
use grove_controller::children::ObservedChildren;
use grove_controller::conditions::ConditionUpdate;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use kube::ResourceExt;

use crate::default_topology::{binding_levels, configured_levels};
use crate::scheduler_topologies::{
    ObservedSchedulerTopology, TopologyExpansion, drift_condition, managed_schedulers, status_of,
};

/// A binding, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The binding.
    pub(crate) binding: ClusterTopologyBinding,
    /// The `ClusterTopology` of the same name, which sets use.
    pub(crate) topology: Option<Topology>,
    /// `topologyAwareScheduling` of the configuration.
    pub(crate) configuration: TopologyAwareScheduling,
    /// The topology objects of the configured schedulers. Empty if topology-aware scheduling is disabled.
    pub(crate) scheduler_topologies: Vec<ObservedSchedulerTopology>,
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

    /// Whether Grove restores the levels and the label of the binding.
    pub(crate) fn is_managed(&self) -> bool {
        self.configuration.manages(&self.binding.name_any())
    }

    /// The levels of the `ClusterTopology`, if it is the managed default and the binding has other levels.
    pub(crate) fn desired_levels(&self) -> Option<Vec<TopologyBindingLevel>> {
        let topology = self.topology.as_ref().filter(|_| self.is_managed())?;
        let has_levels = Topology::from(&self.binding).levels == topology.levels;
        (!has_levels).then(|| binding_levels(topology.levels.clone()))
    }

    /// Why the default topology does not exist: the binding has its name and other levels, and sets use them. `None` if it is not so.
    pub(crate) fn other_levels(&self) -> Option<String> {
        let configured = configured_levels(&self.configuration);
        let is_obstacle = self.is_managed() && self.topology.is_none();
        (is_obstacle && Topology::from(&self.binding).levels != configured).then(|| {
            format!(
                "the configuration has other levels of the default topology: {}; set spec.levels to them, or change \
                 topologyAwareScheduling.levels or topologyAwareScheduling.name",
                join_levels(&configured)
            )
        })
    }

    /// The binding with everything that its topology objects are computed from.
    pub(crate) fn expand(&self) -> TopologyExpansion {
        TopologyExpansion {
            name: self.binding.name_any(),
            owner_references: controller_owner_reference(&self.binding),
            node_labels: self.node_labels(),
            managed: managed_schedulers(self.own_scheduler_topologies()),
        }
    }

    /// The topology objects that the binding controls or names. The `ClusterTopology` of its name controls the others, and reports them.
    fn own_scheduler_topologies(&self) -> impl Iterator<Item = &ObservedSchedulerTopology> {
        let is_own = |topology: &&ObservedSchedulerTopology| topology.is_external || self.topology.is_none();
        self.scheduler_topologies.iter().filter(is_own)
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
        bindings.filter(move |external| self.configuration.enabled && !is_known(external))
    }

    /// The statuses of the topology objects of configured schedulers.
    pub(crate) fn available(&self) -> Vec<SchedulerTopologyStatus> {
        let labels = self.node_labels();
        let topologies = self.own_scheduler_topologies();
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
