//! What the rules have to know of the cluster, as plain data: whoever asks gathers it first.

use std::collections::{BTreeMap, BTreeSet};

use crate::configuration::{Schedulers, TopologyAwareScheduling};
use crate::topology::Topology;

/// What is known of the configuration and of the cluster when a set is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `topologyAwareScheduling` of the configuration.
    pub topology: TopologyAwareScheduling,
    /// `network.autoMNNVLEnabled` of the configuration.
    pub mnnvl_enabled: bool,
    /// `scheduler` of the configuration.
    pub schedulers: Schedulers,
    /// The topologies that exist, of either kind.
    pub topologies: Vec<Topology>,
    /// The queues of Volcano, and whether each is open.
    pub volcano_queues: BTreeMap<String, bool>,
    /// Whether any `PodClique` of the set has `status.scheduledReplicas` above 0.
    pub is_scheduled: bool,
}

impl Facts {
    /// The topology of that name, if new references may be made to it.
    pub fn topology(&self, name: &str) -> Option<&Topology> {
        self.topologies.iter().find(|topology| topology.name == name && !topology.is_terminating)
    }
}

/// What is known of the configuration and of the cluster when a topology is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyFacts {
    /// `topologyAwareScheduling` of the configuration.
    pub topology: TopologyAwareScheduling,
    /// `scheduler` of the configuration.
    pub schedulers: Schedulers,
    /// Whether a topology of the other kind has the name.
    pub is_taken: bool,
    /// Whether one of Grove's own accounts asks.
    pub is_grove: bool,
    /// The sets that refer to the topology.
    pub referring: Vec<Referring>,
}

/// A set that refers to a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referring {
    /// Its namespace and name: `namespace/name`.
    pub set: String,
    /// Whether any of its `PodClique`s has `status.scheduledReplicas` above 0.
    pub is_scheduled: bool,
    /// The domains that its constraints name.
    pub domains: BTreeSet<String>,
}
