//! Condition types, and the reasons of each type. Types and reasons of the Go operator have its names. `Available` follows the
//! condition of that type of a Deployment.

/// `PodCliqueSet`, `PodCliqueScalingGroup`, `PodClique`: whether the object has enough ready pods to serve.
pub const AVAILABLE: &str = "Available";
/// `PodClique`: whether at least `minAvailable` pods are scheduled.
pub const POD_CLIQUE_SCHEDULED: &str = "PodCliqueScheduled";
/// `PodClique`: whether fewer than `minAvailable` pods are scheduled, or are ready or starting. `PodCliqueScalingGroup`: whether
/// fewer than `minAvailable` replicas are healthy.
pub const MIN_AVAILABLE_BREACHED: &str = "MinAvailableBreached";
/// `PodCliqueScalingGroup`: true from the gang termination of its replica of the set until the group has recovered.
pub const GANG_TERMINATION_IN_PROGRESS: &str = "GangTerminationInProgress";
/// `PodCliqueSet`: whether the topology lacks a level that a constraint of the set names.
pub const TOPOLOGY_LEVELS_UNAVAILABLE: &str = "TopologyLevelsUnavailable";
/// All kinds with pods: whether Grove replaces pods of an earlier template. Absent until the first update.
pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
/// `PodCliqueSet`: whether the set has fields that no service supports; the message lists them.
pub const UNSUPPORTED_FIELDS: &str = "UnsupportedFields";
/// `PodCliqueSet`: whether all compute domains that the set needs exist. It does not report whether they are ready.
pub const COMPUTE_DOMAINS_CREATED: &str = "ComputeDomainsCreated";
/// `PodCliqueSet`, `PodCliqueScalingGroup`, `PodClique`: whether all claims exist that Grove creates for the object, and that the pods of the
/// clique use. Absent on objects without claims.
pub const RESOURCE_CLAIMS_CREATED: &str = "ResourceClaimsCreated";
/// `PodGang`: whether all pods of the gang have been created.
pub const INITIALIZED: &str = "Initialized";
/// `PodGang`: whether the minimum of each clique is scheduled.
pub const SCHEDULED: &str = "Scheduled";
/// `PodGang`: whether a scheduler schedules the pods of the gang together.
pub const GANG_SCHEDULING: &str = "GangScheduling";
/// `PodGang`: whether the minimum of each clique is ready. `ClusterTopology`: whether sets can refer to the topology, and it has the levels
/// that the configuration requires. `ClusterTopologyBinding`: present only if the configuration requires other levels.
pub const READY: &str = "Ready";
/// `ClusterTopology`, `ClusterTopologyBinding`: whether the topology object of a scheduler has other levels.
pub const SCHEDULER_TOPOLOGY_DRIFT: &str = "SchedulerTopologyDrift";

/// Reasons of [`AVAILABLE`].
pub mod available {
    /// The gang does not name the `PodGroup` of its next incarnation yet.
    pub const POD_GANG_PENDING: &str = "PodGangPending";
    /// A replica of the set, or pods of the clique, wait for their compute domains.
    pub const COMPUTE_DOMAINS_PENDING: &str = "ComputeDomainsPending";
    /// Some clique of the gang has fewer scheduled pods than its minimum.
    pub const POD_GANG_NOT_SCHEDULED: &str = "PodGangNotScheduled";
    /// The object has enough ready pods.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// The object has too few ready pods; the message contains the counts.
    pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// The API server rejected the create of a child; the message contains the error of the API server.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// The API server rejected the update of a child; the message contains the error of the API server.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// The API server rejected the delete of a child; the message contains the error of the API server.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// An object of another owner has the name of a child; a user must rename or delete one of the two.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// An object with the name of a child exists and could not be decoded; a user must correct or delete it.
    pub const UNREADABLE_OBJECT: &str = "UnreadableObject";
    /// A terminating object has the name of a child; Grove creates the child after its deletion.
    pub const NAME_TERMINATING: &str = "NameTerminating";
    /// The namespace is terminating, so the API server rejects all creates.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The set expands to more objects than a set may have, or the clique has more replicas than a clique may have; Grove changes
    /// nothing until it is smaller.
    pub const TOO_MANY_OBJECTS: &str = "TooManyObjects";
    /// The cliques of the set have more startup dependencies than they may have; Grove changes nothing until it is smaller.
    pub const TOO_MANY_STARTUP_DEPENDENCIES: &str = "TooManyStartupDependencies";
    /// The `PodCliqueSet` that controls a group does not exist.
    pub const POD_CLIQUE_SET_NOT_FOUND: &str = "PodCliqueSetNotFound";
    /// The `PodGang` of a clique or of a replica of a group does not exist.
    pub const POD_GANG_NOT_FOUND: &str = "PodGangNotFound";
    /// The `PodGang` of a clique has no podgroup of the name of the clique.
    pub const POD_GROUP_NOT_FOUND: &str = "PodGroupNotFound";
    /// The pods of a scaled gang wait until the base gang is scheduled.
    pub const BASE_GANG_NOT_SCHEDULED: &str = "BaseGangNotScheduled";
    /// Pods ended soon after they started, and Grove replaces them with exponential backoff.
    pub const POD_REPLACEMENT_BACKOFF: &str = "PodReplacementBackoff";
    /// The `PodGang` of a clique has no space for the references of all pods. The pods run without references.
    pub const TOO_MANY_POD_REFERENCES: &str = "TooManyPodReferences";
    /// The value of an annotation that another service writes cannot be read, or has a later version; nothing that depends on it is created.
    pub const UNREADABLE_ANNOTATION: &str = "UnreadableAnnotation";
    /// The pods of the clique wait for ready pods of other cliques; the message contains the counts.
    pub const STARTUP_DEPENDENCIES_PENDING: &str = "StartupDependenciesPending";
    /// The token of waiting pods is created after their account.
    pub const STARTUP_TOKEN_PENDING: &str = "StartupTokenPending";
    /// The template of a replica that is updated later does not exist any more.
    pub const REVISION_NOT_FOUND: &str = "RevisionNotFound";
    /// A clique that the pods start after does not exist.
    pub const STARTUP_DEPENDENCY_NOT_FOUND: &str = "StartupDependencyNotFound";
    /// The pods of the clique start after other cliques, and pclq-controller has no image for their init container.
    pub const INIT_CONTAINER_IMAGE_UNKNOWN: &str = "InitContainerImageUnknown";
    /// A clique lacks a label that its pods need.
    pub const LABEL_MISSING: &str = "LabelMissing";

    /// The reason for a write to a child that the API server rejected. `verb` is the verb of the request.
    pub fn failed(verb: &str) -> &'static str {
        match verb {
            "create" => FAILED_CREATE,
            "delete" => FAILED_DELETE,
            _ => FAILED_UPDATE,
        }
    }
}

/// Reasons of [`POD_CLIQUE_SCHEDULED`].
pub mod pod_clique_scheduled {
    /// At least `minAvailable` pods are scheduled.
    pub const SUFFICIENT_SCHEDULED_PODS: &str = "SufficientScheduledPods";
    /// Fewer than `minAvailable` pods are scheduled.
    pub const INSUFFICIENT_SCHEDULED_PODS: &str = "InsufficientScheduledPods";
}

/// Reasons of [`MIN_AVAILABLE_BREACHED`].
pub mod min_available_breached {
    /// An update is in progress, so that the readiness of the pods does not show a breach.
    pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
    /// Of a scaling group: fewer than `minAvailable` replicas are healthy.
    pub const INSUFFICIENT_AVAILABLE_REPLICAS: &str = "InsufficientAvailablePodCliqueScalingGroupReplicas";
    /// Of a scaling group: at least `minAvailable` replicas are healthy.
    pub const SUFFICIENT_AVAILABLE_REPLICAS: &str = "SufficientAvailablePodCliqueScalingGroupReplicas";
    /// Of a clique: fewer than `minAvailable` pods are scheduled.
    pub const SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE: &str = "ScheduledReplicasBelowMinAvailable";
    /// Of a clique: fewer than `minAvailable` pods are ready or starting.
    pub const INSUFFICIENT_READY_PODS: &str = "InsufficientReadyPods";
    /// Of a clique: at least `minAvailable` pods are ready or starting.
    pub const SUFFICIENT_READY_PODS: &str = "SufficientReadyPods";
}

/// Reasons of [`GANG_TERMINATION_IN_PROGRESS`].
pub mod gang_termination_in_progress {
    /// Grove deleted the cliques of the replica and creates them again.
    pub const GANG_TERMINATION_ACTIVE: &str = "GangTerminationActive";
}

/// Reasons of [`UPDATE_IN_PROGRESS`], as in newer versions of the Go operator.
pub mod update_in_progress {
    /// The message names the cliques and scaling groups that the update waits for.
    pub const PROGRESSING: &str = "Progressing";
    /// The user has paused the update.
    pub const PAUSED: &str = "Paused";
    /// A new pod cannot start; the message has what the scheduler or the kubelet reports about it.
    pub const BLOCKED: &str = "Blocked";
    /// A clique or a scaling group has made no progress for the time of its `progressDeadline`. The condition is `Unknown`.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The last update has ended, or the user replaces the pods.
    pub const NO_ACTIVE_UPDATE: &str = "NoActiveUpdate";
}

/// Reasons of [`TOPOLOGY_LEVELS_UNAVAILABLE`].
pub mod topology_levels_unavailable {
    /// The topology has all levels that the constraints name, or the set has no constraint.
    pub const ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE: &str = "AllClusterTopologyLevelsAvailable";
    /// The topology lacks a level that a constraint names.
    pub const CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE: &str = "ClusterTopologyLevelsUnavailable";
    /// The topology does not exist.
    pub const CLUSTER_TOPOLOGY_NOT_FOUND: &str = "ClusterTopologyNotFound";
    /// No constraint names a topology, and the configuration has no default topology.
    pub const TOPOLOGY_NAME_MISSING: &str = "TopologyNameMissing";
    /// The set has constraints, and the configuration disables topology-aware scheduling.
    pub const TOPOLOGY_AWARE_SCHEDULING_DISABLED: &str = "TopologyAwareSchedulingDisabled";
}

/// Reasons of [`COMPUTE_DOMAINS_CREATED`], besides those of [`available`](super::available) about rejected writes and about names that
/// other objects have.
pub mod compute_domains_created {
    /// All domains that the set needs exist, or it needs none at its current scale.
    pub const ALL_COMPUTE_DOMAINS_EXIST: &str = "AllComputeDomainsExist";
    /// A domain does not exist yet.
    pub const COMPUTE_DOMAINS_MISSING: &str = "ComputeDomainsMissing";
    /// The API server does not serve compute domains; the message names their CRD.
    pub const COMPUTE_DOMAINS_NOT_SERVED: &str = "ComputeDomainsNotServed";
    /// mnnvl-controller must not read compute domains.
    pub const COMPUTE_DOMAINS_FORBIDDEN: &str = "ComputeDomainsForbidden";
    /// A domain has another spec than the set needs, and the spec is immutable.
    pub const COMPUTE_DOMAIN_SPEC_DIFFERS: &str = "ComputeDomainSpecDiffers";
    /// A domain is being deleted although the set needs it.
    pub const COMPUTE_DOMAIN_TERMINATING: &str = "ComputeDomainTerminating";
}

/// Reasons of [`RESOURCE_CLAIMS_CREATED`], from the least to the most specific one.
pub mod resource_claims_created {
    /// All claims exist.
    pub const ALL_RESOURCE_CLAIMS_EXIST: &str = "AllResourceClaimsExist";
    /// Claims do not exist yet. Of a clique: its pods wait for claims of the set or of the scaling group.
    pub const RESOURCE_CLAIMS_PENDING: &str = "ResourceClaimsPending";
    /// An earlier claim of the same name is being deleted; it is never used again.
    pub const RESOURCE_CLAIM_TERMINATING: &str = "ResourceClaimTerminating";
    /// The API server rejected a claim; the message contains the error of the API server.
    pub const RESOURCE_CLAIM_REJECTED: &str = "ResourceClaimRejected";
    /// An object of another owner has the name of a claim; a user must delete or rename one of the two.
    pub const RESOURCE_CLAIM_NAME_CONFLICT: &str = "ResourceClaimNameConflict";
    /// A template does not exist; the message contains its namespace, its name and the field that refers to it.
    pub const RESOURCE_CLAIM_TEMPLATE_NOT_FOUND: &str = "ResourceClaimTemplateNotFound";
    /// The claims of a clique are unknown, because its annotation cannot be read or has a later version.
    pub const RESOURCE_CLAIMS_INVALID: &str = "ResourceClaimsInvalid";
    /// The API server does not serve claims; the message contains the remedy.
    pub const RESOURCE_CLAIMS_NOT_SERVED: &str = "ResourceClaimsNotServed";
    /// The service must not read claims or templates; the message contains the remedy.
    pub const RESOURCE_CLAIMS_FORBIDDEN: &str = "ResourceClaimsForbidden";
}

/// Reasons of [`UNSUPPORTED_FIELDS`].
pub mod unsupported_fields {
    /// The set has fields that Grove stores and that no service supports.
    pub const FIELDS_NOT_SUPPORTED: &str = "FieldsNotSupported";
}

/// Reasons of [`SCHEDULED`].
pub mod scheduled {
    /// Every clique has its minimum of scheduled pods.
    pub const SUFFICIENT_SCHEDULED_PODS: &str = "SufficientScheduledPods";
    /// A clique has fewer scheduled pods than its minimum.
    pub const INSUFFICIENT_SCHEDULED_PODS: &str = "InsufficientScheduledPods";
}

/// Reasons of [`GANG_SCHEDULING`] if no scheduler schedules the pods together. Otherwise the reason is the name of the scheduler.
pub mod gang_scheduling {
    /// The scheduler schedules each pod on its own.
    pub const PODS_SCHEDULED_INDIVIDUALLY: &str = "PodsScheduledIndividually";
    /// Grove has no object that describes gangs to this scheduler.
    pub const NO_POD_GROUP: &str = "NoPodGroup";
    /// The `PodGroup` of a scaled gang is created once the base gang is scheduled.
    pub const BASE_GANG_NOT_SCHEDULED: &str = "BaseGangNotScheduled";
    /// The reasons that report no failure.
    pub const NORMAL: [&str; 3] = [PODS_SCHEDULED_INDIVIDUALLY, NO_POD_GROUP, BASE_GANG_NOT_SCHEDULED];
    /// The scheduler has scheduled pods of the gang and reports nothing about its `PodGroup`.
    pub const SCHEDULER_IGNORES_POD_GROUPS: &str = "SchedulerIgnoresPodGroups";
    /// topology-controller must not read the `PodGroup`s of the scheduler.
    pub const POD_GROUPS_FORBIDDEN: &str = "PodGroupsForbidden";
    /// The API server does not serve the `PodGroup`s of the scheduler.
    pub const POD_GROUPS_NOT_SERVED: &str = "PodGroupsNotServed";
    /// The annotations of the gang about its `PodGroup` cannot be read, or have a later version; its `PodGroup` stays as it is.
    pub const UNREADABLE_ANNOTATION: &str = "UnreadableAnnotation";
    /// The label of the gang names a scheduler that the configuration does not have; the `PodGroup` of the gang stays as it is.
    pub const SCHEDULER_UNKNOWN: &str = "SchedulerUnknown";
    /// The scheduler needs one queue for the gang, and the set and its cliques name none or different ones.
    pub const QUEUE_MISSING: &str = "QueueMissing";
    /// The gang has topology constraints, and no annotation names the topology.
    pub const TOPOLOGY_NAME_MISSING: &str = "TopologyNameMissing";
}

/// Reasons of [`INITIALIZED`].
pub mod initialized {
    /// A pod of the gang has not been created yet.
    pub const POD_GANG_PODS_CREATION_PENDING: &str = "PodGangPodsCreationPending";
    /// All pods of the gang have been created.
    pub const POD_GANG_PODS_CREATED: &str = "PodGangPodsCreated";
}

/// Reasons of [`READY`].
pub mod ready {
    /// Every clique has its minimum of ready pods.
    pub const SUFFICIENT_READY_PODS: &str = "SufficientReadyPods";
    /// A clique has fewer ready pods than its minimum.
    pub const INSUFFICIENT_READY_PODS: &str = "InsufficientReadyPods";
}

/// Reasons of [`READY`] of a `ClusterTopology` and of a `ClusterTopologyBinding`.
pub mod cluster_topology_ready {
    /// Sets can refer to the topology.
    pub const AVAILABLE: &str = "TopologyAvailable";
    /// The topology is terminating, so a new set cannot refer to it; the message names what the deletion waits for.
    pub const TERMINATING: &str = "TopologyTerminating";
    /// The configuration has other levels of the default topology, and they cannot change now; the message names the cause.
    pub const LEVELS_IN_USE: &str = "LevelsInUse";
    /// The configuration has other levels of the default topology than the `ClusterTopologyBinding` of its name, which sets use.
    pub const LEVELS_DIFFER: &str = "LevelsDiffer";
    /// The API server rejected the configured levels of the default topology.
    pub const LEVELS_REJECTED: &str = "LevelsRejected";
}

/// Reasons of [`SCHEDULER_TOPOLOGY_DRIFT`].
pub mod scheduler_topology_drift {
    /// All topology objects of schedulers have the levels of the topology.
    pub const IN_SYNC: &str = "InSync";
    /// A topology object of a scheduler is missing or has other levels.
    pub const DRIFT: &str = "Drift";
    /// The topology names a scheduler that is not configured or has no topology objects.
    pub const TOPOLOGY_NOT_FOUND: &str = "TopologyNotFound";
}
