//! Condition types and reasons, as the wire format has them, and the summary conditions beside them.

/// `PodCliqueSet`, `PodClique`: whether it serves as asked. For `kubectl wait`.
pub const AVAILABLE: &str = "Available";
/// `PodClique`: whether `minAvailable` pods are scheduled.
pub const POD_CLIQUE_SCHEDULED: &str = "PodCliqueScheduled";
/// `PodClique`: whether fewer than `minAvailable` pods are scheduled or ready.
pub const MIN_AVAILABLE_BREACHED: &str = "MinAvailableBreached";
/// `PodGang`: whether every pod of it exists.
pub const INITIALIZED: &str = "Initialized";
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
    /// Fewer than `minAvailable` pods are scheduled.
    pub const SCHEDULED_BELOW: &str = "ScheduledReplicasBelowMinAvailable";
    /// Fewer than `minAvailable` pods are ready or starting.
    pub const INSUFFICIENT_READY: &str = "InsufficientReadyPods";
    /// Enough pods are ready or starting.
    pub const SUFFICIENT_READY: &str = "SufficientReadyPods";
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
