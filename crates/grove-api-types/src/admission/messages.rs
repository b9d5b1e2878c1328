//! Messages that the rules share with the CRDs. The API server validates an object against its CRD before it calls the
//! validating webhook, and also when no webhook is installed.

use crate::expansion::dependency_count::{MAX_DEPENDENCIES, MAX_DEPENDENCIES_OF_CLIQUE};
use crate::expansion::object_count::{MAX_GANG_SIZE, MAX_OBJECTS};

pub(crate) const NO_CLIQUES: &str = "at least one PodClique must be defined";
pub(crate) const EMPTY_NAME: &str = "field cannot be empty";
pub(crate) const INVALID_CLIQUE_NAME: &str =
    "invalid PodCliqueTemplateSpec name, must be a valid DNS label: lower-case letters, digits and '-'";
pub(crate) const INVALID_GROUP_NAME: &str =
    "invalid PodCliqueScalingGroupConfig name, must be a valid DNS label: lower-case letters, digits and '-'";
pub(crate) const SET_NAME_WITH_DOTS: &str =
    "must not contain dots: it becomes part of hostnames and the name of a Service";
pub(crate) const NOT_POSITIVE: &str = "must be greater than 0";
pub(crate) const MIN_AVAILABLE_ABOVE_REPLICAS: &str = "minAvailable must not be greater than replicas";
pub(crate) const DELAY_NOT_POSITIVE: &str = "terminationDelay must be greater than 0";
pub(crate) const MAX_UNAVAILABLE_INVALID: &str = "must be a number greater than 0, or a percentage from 1% to 100%";
pub(crate) const ROLLING_UPDATE_ON_DELETE: &str =
    "has no effect with the update strategy OnDelete; remove it, or choose RollingRecreate";
pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const CLIQUES_CHANGED: &str = "not allowed to change clique composition";
pub(crate) const GROUPS_CHANGED: &str = "not allowed to add or remove PodCliqueScalingGroupConfigs";
pub(crate) const TOPOLOGY_WITHOUT_CONSTRAINT: &str =
    "names a topology, but no level has a topologyConstraint; add a constraint or remove the name";
pub(crate) const EMPTY_REFERENCE_NAME: &str = "reference name is required";
pub(crate) const EMPTY_FILTER: &str =
    "filter must specify at least one childCliqueNames or childScalingGroupNames entry";

/// The messages about the bounds of an autoscaler.
pub(crate) struct BoundsMessages {
    /// `minReplicas` is below `minAvailable`.
    pub(crate) min_below_min_available: &'static str,
    /// `maxReplicas` is below `minReplicas`.
    pub(crate) max_below_min: &'static str,
    /// `maxReplicas` is below `replicas`.
    pub(crate) max_below_replicas: &'static str,
}

pub(crate) const CLIQUE_BOUNDS: BoundsMessages = BoundsMessages {
    min_below_min_available: "must be greater than or equal to podCliqueSpec.minAvailable",
    max_below_min: "must be greater than or equal to autoScalingConfig.minReplicas",
    max_below_replicas: "must be greater than or equal to replicas",
};
pub(crate) const GROUP_BOUNDS: BoundsMessages = BoundsMessages {
    min_below_min_available: "scaleConfig.minReplicas must be greater than or equal to minAvailable",
    max_below_min: "scaleConfig.maxReplicas must be greater than or equal to scaleConfig.minReplicas",
    max_below_replicas: "scaleConfig.maxReplicas must be greater than or equal to replicas",
};

/// The message about a gang with too many pods and pod groups.
pub(crate) fn gang_too_large(size: u64) -> String {
    format!(
        "a gang of the set would have {size} pods and PodCliques, and a gang may have at most {MAX_GANG_SIZE}; lower the replicas of \
         the cliques or the minAvailable of the scaling groups, or split the set"
    )
}

/// The message about a set that expands to too many objects.
pub(crate) fn too_large(objects: u64) -> String {
    format!(
        "the set would expand to {objects} objects, pods included, and a set may have at most {MAX_OBJECTS}; lower the \
         replicas of the set, of its scaling groups or of its cliques, or split the set"
    )
}

/// The message about a clique with too many startup dependencies.
pub(crate) fn too_many_dependencies_of_clique(dependencies: u64) -> String {
    format!(
        "a PodClique of the set would have {dependencies} startup dependencies, and a PodClique may have at most \
         {MAX_DEPENDENCIES_OF_CLIQUE}; lower the minAvailable of the scaling groups, or remove names from startsAfter"
    )
}

/// The message about a set with too many startup dependencies.
pub(crate) fn too_many_dependencies(dependencies: u64) -> String {
    format!(
        "the PodCliques of the set would have {dependencies} startup dependencies, and those of a set may have at most \
         {MAX_DEPENDENCIES}; lower the replicas of the set, or the replicas or minAvailable of its scaling groups, or split the set"
    )
}
