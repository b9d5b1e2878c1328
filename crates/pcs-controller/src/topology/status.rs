//! The condition `TopologyLevelsUnavailable`.

use grove_api_types::conditions::TOPOLOGY_LEVELS_UNAVAILABLE;
use grove_api_types::conditions::topology_levels_unavailable::{
    ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE, CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE, CLUSTER_TOPOLOGY_NOT_FOUND,
    TOPOLOGY_AWARE_SCHEDULING_DISABLED, TOPOLOGY_NAME_MISSING,
};
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate};

use super::observed::{GangTopologies, SetTopology};

/// A message contains at most this many gangs, and counts the others.
const MAX_NAMED: usize = 10;

/// The condition; `None` if the configuration disables topology-aware scheduling and the set has no constraints.
pub(crate) fn condition(topologies: &GangTopologies, is_enabled: bool, set: &PodCliqueSet) -> Option<ConditionUpdate> {
    let (status, reason, message) = match topologies.of_set() {
        SetTopology::Unconstrained if !is_enabled => return None,
        SetTopology::Unconstrained => {
            let message = "the set has no topology constraints".to_owned();
            (ConditionStatus::False, ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE, message)
        }
        SetTopology::Disabled => {
            let message = "the topology constraints have no effect; set topologyAwareScheduling.enabled in the configuration of Grove";
            (ConditionStatus::Unknown, TOPOLOGY_AWARE_SCHEDULING_DISABLED, message.to_owned())
        }
        SetTopology::NotFound { name, is_default: true } => {
            let message = format!(
                "the set names no topology, and the default topology {name} does not exist; set topologyConstraint.topologyName, or create the \
                 ClusterTopology {name}"
            );
            (ConditionStatus::Unknown, TOPOLOGY_NAME_MISSING, message)
        }
        SetTopology::NotFound { name, is_default: false } => {
            let message = format!(
                "the topology {name} does not exist; create the ClusterTopology or the ClusterTopologyBinding {name}"
            );
            (ConditionStatus::Unknown, CLUSTER_TOPOLOGY_NOT_FOUND, message)
        }
        SetTopology::Found(constraints) => {
            let missing = constraints.missing_domains();
            if missing.is_empty() {
                let message = format!("the topology {} has all levels of the constraints", constraints.topology_name());
                (ConditionStatus::False, ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE, message)
            } else {
                let message = format!(
                    "the topology {} lacks these domains, so their constraints have no effect: {}",
                    constraints.topology_name(),
                    missing.join(", ")
                );
                (ConditionStatus::True, CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE, message)
            }
        }
    };
    let retained: Vec<String> =
        topologies.retained().map(|(gang, topology)| format!("{gang} (topology {topology})")).collect();
    let message = if retained.is_empty() {
        message
    } else {
        let gangs = join_names(&retained, MAX_NAMED);
        format!("{message}; these gangs have scheduled pods and retain their constraints: {gangs}")
    };
    Some(ConditionUpdate {
        type_: TOPOLOGY_LEVELS_UNAVAILABLE,
        status,
        reason: reason.to_owned(),
        message,
        observed_generation: set.metadata.generation,
    })
}
