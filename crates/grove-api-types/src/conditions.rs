//! Condition types and reasons, as the wire format has them, and the summary conditions beside them.

/// `PodCliqueSet`, `PodCliqueScalingGroup`, `PodClique`: whether it serves as asked. For `kubectl wait`.
pub const AVAILABLE: &str = "Available";
/// `PodClique`: whether `minAvailable` pods are scheduled.
pub const POD_CLIQUE_SCHEDULED: &str = "PodCliqueScheduled";
/// `PodClique`: whether fewer than `minAvailable` pods are scheduled or ready. `PodCliqueScalingGroup`: whether fewer than
/// `minAvailable` replicas are whole.
pub const MIN_AVAILABLE_BREACHED: &str = "MinAvailableBreached";
/// `PodCliqueScalingGroup`: true from when its replica of the set was restarted as a whole until it has recovered.
pub const GANG_TERMINATION_IN_PROGRESS: &str = "GangTerminationInProgress";
/// `PodCliqueSet`: whether some level of the topology that its constraints name is missing.
pub const TOPOLOGY_LEVELS_UNAVAILABLE: &str = "TopologyLevelsUnavailable";
/// `PodCliqueSet`: whether it has fields that no service acts on; the message lists them.
pub const FIELDS_IGNORED: &str = "FieldsIgnored";
/// `PodCliqueSet`: whether it has pods that were made from an older template; the message says which cliques and groups do.
pub const PODS_OUTDATED: &str = "PodsOutdated";
/// `PodGang`: whether every pod of it exists.
pub const INITIALIZED: &str = "Initialized";
/// `PodGang`: whether every pod of its minimum is scheduled.
pub const SCHEDULED: &str = "Scheduled";
/// `PodGang`: whether every pod of its minimum is ready.
pub const READY: &str = "Ready";

/// Reasons of [`AVAILABLE`].
pub mod available {
    /// What the object must have to serve is there.
    pub const SUFFICIENT: &str = "SufficientReplicasAvailable";
    /// Something is missing; the message says what.
    pub const UNAVAILABLE: &str = "ReplicasUnavailable";
    /// The API server refused something; the message has its words.
    pub const REFUSED: &str = "Refused";
    /// The set implies more objects than a set may have, and nothing is done until it is smaller.
    pub const TOO_LARGE: &str = "TooManyObjects";
}

/// Reasons of [`POD_CLIQUE_SCHEDULED`].
pub mod scheduled {
    /// At least `minAvailable` pods are bound.
    pub const SUFFICIENT: &str = "SufficientScheduledPods";
    /// Fewer are.
    pub const INSUFFICIENT: &str = "InsufficientScheduledPods";
}

/// Reasons of [`MIN_AVAILABLE_BREACHED`].
pub mod breached {
    /// An update runs, which says nothing about the old pods' health.
    pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
    /// Of a scaling group: fewer than `minAvailable` replicas are whole.
    pub const INSUFFICIENT_REPLICAS: &str = "InsufficientAvailablePodCliqueScalingGroupReplicas";
    /// Of a scaling group: enough replicas are whole.
    pub const SUFFICIENT_REPLICAS: &str = "SufficientAvailablePodCliqueScalingGroupReplicas";
    /// Fewer than `minAvailable` pods are scheduled.
    pub const SCHEDULED_BELOW: &str = "ScheduledReplicasBelowMinAvailable";
    /// Fewer than `minAvailable` pods are ready or starting.
    pub const INSUFFICIENT_READY: &str = "InsufficientReadyPods";
    /// Enough pods are ready or starting.
    pub const SUFFICIENT_READY: &str = "SufficientReadyPods";
}

/// Reasons of [`GANG_TERMINATION_IN_PROGRESS`].
pub mod termination {
    /// The cliques of the replica were deleted and are created anew.
    pub const ACTIVE: &str = "GangTerminationActive";
}

/// Reasons of [`TOPOLOGY_LEVELS_UNAVAILABLE`].
pub mod topology_levels {
    /// Every level that the constraints name is there, or there is no constraint.
    pub const AVAILABLE: &str = "AllClusterTopologyLevelsAvailable";
    /// Some level is not.
    pub const UNAVAILABLE: &str = "ClusterTopologyLevelsUnavailable";
    /// The topology does not exist.
    pub const TOPOLOGY_NOT_FOUND: &str = "ClusterTopologyNotFound";
    /// No constraint names a topology, and there is no default.
    pub const NAME_MISSING: &str = "TopologyNameMissing";
    /// There are constraints, and topology-aware scheduling is off.
    pub const DISABLED: &str = "TopologyAwareSchedulingDisabled";
}

/// Reasons of [`FIELDS_IGNORED`].
pub mod fields_ignored {
    /// The set has fields that are kept and not acted on.
    pub const NOT_ACTED_ON: &str = "FieldsNotActedOn";
}

/// Reasons of [`PODS_OUTDATED`].
pub mod pods_outdated {
    /// The template was changed after pods were made from it.
    pub const TEMPLATE_CHANGED: &str = "TemplateChanged";
}

/// Reasons of [`SCHEDULED`].
pub mod gang_scheduled {
    /// Every clique has its minimum of scheduled pods.
    pub const SUFFICIENT: &str = "SufficientScheduledPods";
    /// Some clique has fewer.
    pub const INSUFFICIENT: &str = "InsufficientScheduledPods";
}

/// Reasons of [`INITIALIZED`].
pub mod initialized {
    /// Some pod of the gang does not exist yet.
    pub const PENDING: &str = "PodGangPodsCreationPending";
    /// All pods of the gang have existed.
    pub const CREATED: &str = "PodGangPodsCreated";
}

/// Reasons of [`READY`].
pub mod ready {
    /// Every clique has its minimum of ready pods.
    pub const SUFFICIENT: &str = "SufficientReadyPods";
    /// Some clique has fewer.
    pub const INSUFFICIENT: &str = "InsufficientReadyPods";
}
