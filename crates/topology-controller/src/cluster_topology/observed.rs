//! The snapshot of a topology, of the sets that refer to it, of the nodes and of its topology objects: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::admission::{ReferencingSet, TopologyFacts, validate_cluster_topology_update};
use grove_api_types::configuration::{Schedulers, TopologyAwareScheduling};
use grove_api_types::deletion::is_terminating;
use grove_api_types::finalizers;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::children::ObservedChildren;
use grove_controller::conditions::ConditionUpdate;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use kube::ResourceExt;

use crate::default_topology;
use crate::scheduler_topologies::{
    ObservedSchedulerTopology, TopologyExpansion, drift_condition, managed_schedulers, status_of,
};

/// A topology, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The topology.
    pub(crate) topology: ClusterTopology,
    /// `topologyAwareScheduling` of the configuration.
    pub(crate) configuration: TopologyAwareScheduling,
    /// `scheduler` of the configuration.
    pub(crate) schedulers: Schedulers,
    /// The sets that refer to the topology.
    pub(crate) referring_sets: Vec<ReferencingSet>,
    /// Whether a live LIST of the sets confirmed that no set refers to the topology. It is sent only if the topology is terminating and the
    /// caches show no such set.
    pub(crate) live_references: LiveReferences,
    /// The nodes of the cluster.
    pub(crate) nodes: Nodes,
    /// The topology objects of the configured schedulers.
    pub(crate) scheduler_topologies: Vec<ObservedSchedulerTopology>,
    /// The topology objects that the topology controls.
    pub(crate) children: ObservedChildren,
    /// The objects that have the name of a topology object and that the topology does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The topology objects that the API server rejected. They are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The topology objects that were created and that the caches do not have yet.
    pub(crate) pending_creates: PendingCreates,
}

/// What a live LIST of the sets showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveReferences {
    /// It was not sent.
    NotRead,
    /// No set refers to the topology.
    None,
    /// This set refers to the topology.
    Some(String),
    /// The API server did not answer.
    Failed,
}

/// The number of nodes, and of those with each key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// All nodes.
    pub(crate) count: usize,
    /// The nodes with a label, by its key.
    pub(crate) with_key: BTreeMap<String, usize>,
}

impl Observed {
    /// Whether the topology has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.topology)
    }

    /// Whether the topology is the configured default, and topology-aware scheduling is enabled. Then its finalizer stays.
    pub(crate) fn is_enabled_default(&self) -> bool {
        self.configuration.enabled && self.topology.name_any() == self.configuration.name
    }

    /// Whether Grove restores the levels of the topology from its configuration.
    pub(crate) fn is_managed(&self) -> bool {
        self.configuration.manages(&self.topology.name_any())
    }

    /// Whether the deletion of the topology may end: it is terminating, no set refers to it, and it is not the default of an enabled
    /// configuration.
    pub(crate) fn may_be_deleted(&self) -> bool {
        self.is_terminating()
            && !self.is_enabled_default()
            && self.referring_sets.is_empty()
            && self.live_references == LiveReferences::None
    }

    /// Whether the finalizer of Grove still holds the topology.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.topology.finalizers().iter().any(|finalizer| finalizer == finalizers::CLUSTER_TOPOLOGY)
    }

    /// The levels of the topology, the broadest first.
    pub(crate) fn levels(&self) -> Topology {
        Topology::from(&self.topology)
    }

    /// The configured levels, if the topology is the managed default and has other levels.
    pub(crate) fn desired_levels(&self) -> Option<ClusterTopology> {
        let desired = default_topology::managed(&self.configuration).filter(|_| self.is_managed())?;
        (Topology::from(&desired).levels != self.levels().levels).then_some(desired)
    }

    /// Why the levels cannot change to the configured ones now; `None` if they can, or need not. It is the rule of admission, so no request is
    /// sent that would be denied.
    pub(crate) fn levels_blocked_by(&self) -> Option<String> {
        let mut desired = self.desired_levels()?;
        desired.metadata = self.topology.metadata.clone();
        let facts = TopologyFacts {
            topology: self.configuration.clone(),
            schedulers: self.schedulers.clone(),
            other_kind: None,
            is_grove_user: true,
            referencing_sets: self.referring_sets.clone(),
        };
        validate_cluster_topology_update(&desired, &self.topology, &facts).message()
    }

    /// The topology with everything that its topology objects are computed from.
    pub(crate) fn expand(&self) -> TopologyExpansion {
        TopologyExpansion {
            name: self.topology.name_any(),
            owner_references: controller_owner_reference(&self.topology),
            node_labels: self.node_labels(),
            managed: managed_schedulers(&self.scheduler_topologies),
        }
    }

    /// The node labels of the levels.
    pub(crate) fn node_labels(&self) -> Vec<String> {
        self.levels().levels.into_iter().map(|level| level.key).collect()
    }

    /// The condition about the topology objects of schedulers. A message about one that is not in sync replaces the general message.
    pub(crate) fn drift(&self) -> Option<ConditionUpdate> {
        let labels = self.node_labels();
        let of_scheduler = |topology| status_of(topology, &self.topology, &labels);
        let statuses: Vec<_> = self.scheduler_topologies.iter().map(of_scheduler).collect();
        let drift = drift_condition(&statuses, false, self.topology.metadata.generation)?;
        let details: Vec<String> = statuses.into_iter().filter_map(|status| status.message).collect();
        let message = if details.is_empty() { drift.message.clone() } else { details.join("; ") };
        Some(ConditionUpdate { message, ..drift })
    }

    /// The name conflicts, ready to be resolved. Without labels, no object is adopted.
    pub(crate) fn conflicts<'a>(
        &'a self,
        no_labels: &'a BTreeMap<String, String>,
    ) -> NameConflicts<'a, ClusterTopology> {
        NameConflicts { owner: &self.topology, conflicts: &self.name_conflicts, labels: no_labels }
    }
}
