//! What the rules say in the same words as the definitions, which judge first and hold when no webhook answers.

use crate::expansion::object_count::MAX_OBJECTS;

pub(crate) const NO_CLIQUE: &str = "at least one PodClique must be defined";
pub(crate) const NO_NAME: &str = "field cannot be empty";
pub(crate) const CLIQUE_NAME: &str =
    "invalid PodCliqueTemplateSpec name, must be a valid DNS label: lower-case letters, digits and '-'";
pub(crate) const GROUP_NAME: &str =
    "invalid PodCliqueScalingGroupConfig name, must be a valid DNS label: lower-case letters, digits and '-'";
pub(crate) const SET_NAME: &str = "must not contain dots: it becomes part of hostnames and the name of a Service";
pub(crate) const ABOVE_ZERO: &str = "must be greater than 0";
pub(crate) const ABOVE_REPLICAS: &str = "minAvailable must not be greater than replicas";
pub(crate) const NO_DELAY: &str = "terminationDelay must be greater than 0";
pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const CLIQUES_CHANGE: &str = "not allowed to change clique composition";
pub(crate) const GROUPS_CHANGE: &str = "not allowed to add or remove PodCliqueScalingGroupConfigs";
pub(crate) const NOTHING_PACKED: &str =
    "names a topology, and there is no topologyConstraint at any level; add one or remove the name";
pub(crate) const NO_SHARED_NAME: &str = "reference name is required";
pub(crate) const NO_FILTER: &str = "filter must specify at least one childCliqueNames or childScalingGroupNames entry";

/// What is said of an autoscaler that may go below `minAvailable`, and of one whose most is below its least or `replicas`.
pub(crate) struct Bounds {
    pub(crate) least: &'static str,
    pub(crate) min: &'static str,
    pub(crate) most: &'static str,
}

pub(crate) const CLIQUE_BOUNDS: Bounds = Bounds {
    least: "must be greater than or equal to podCliqueSpec.minAvailable",
    min: "must be greater than or equal to autoScalingConfig.minReplicas",
    most: "must be greater than or equal to replicas",
};
pub(crate) const GROUP_BOUNDS: Bounds = Bounds {
    least: "scaleConfig.minReplicas must be greater than or equal to minAvailable",
    min: "scaleConfig.maxReplicas must be greater than or equal to scaleConfig.minReplicas",
    most: "scaleConfig.maxReplicas must be greater than or equal to replicas",
};

/// What is said of a set that would have so many objects.
pub(crate) fn too_large(objects: u64) -> String {
    format!(
        "the set would have {objects} objects, pods and what is made for them, and {MAX_OBJECTS} is the most; lower replicas \
         of the set, of its scaling groups or of its cliques, or divide it into several sets"
    )
}
