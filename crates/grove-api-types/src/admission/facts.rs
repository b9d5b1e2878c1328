//! Facts about the cluster that the rules need, as plain data. The caller collects them from its caches.

use std::collections::{BTreeMap, BTreeSet};

use crate::configuration::{AutoMnnvlScope, Schedulers, TopologyAwareScheduling};
use crate::topology::Topology;

/// The configuration and the state of the cluster for the validation of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `topologyAwareScheduling` of the configuration.
    pub topology: TopologyAwareScheduling,
    /// `network.autoMNNVLEnabled` of the configuration.
    pub mnnvl_enabled: bool,
    /// `network.autoMNNVLScope` of the configuration.
    pub mnnvl_scope: AutoMnnvlScope,
    /// The GPUs of the node with most; `None` if no node has GPUs, or if MNNVL is disabled.
    pub gpus_per_node: Option<u64>,
    /// `scheduler` of the configuration.
    pub schedulers: Schedulers,
    /// The existing topologies, of both kinds. A `ClusterTopology` precedes the binding of its name.
    pub topologies: Vec<Topology>,
    /// The queues of the scheduler with a default queue, and whether each is open; `None` if the service must not read them.
    pub queues: Option<BTreeMap<String, bool>>,
    /// Whether any `PodClique` of the set has `status.scheduledReplicas` above 0.
    pub is_scheduled: bool,
}

/// The configuration and the state of the cluster for the validation of a topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyFacts {
    /// `topologyAwareScheduling` of the configuration.
    pub topology: TopologyAwareScheduling,
    /// `scheduler` of the configuration.
    pub schedulers: Schedulers,
    /// The topology of the other kind with the same name.
    pub other_kind: Option<Topology>,
    /// Whether an account of Grove sent the request.
    pub is_grove_user: bool,
    /// The sets that refer to the topology.
    pub referencing_sets: Vec<ReferencingSet>,
}

/// A set that refers to a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferencingSet {
    /// Its namespace and name: `namespace/name`.
    pub set: String,
    /// Whether any of its `PodClique`s has `status.scheduledReplicas` above 0.
    pub is_scheduled: bool,
    /// The domains that its constraints name.
    pub domains: BTreeSet<String>,
}
