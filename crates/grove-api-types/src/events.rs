//! Reasons of the events that Grove publishes. Events of the Go operator have its reasons; the others follow their pattern:
//! kind, verb, and `Successful` (type `Normal`) or `Failed` (type `Warning`).
//!
//! An event belongs to the object that controls the children: of a `PodCliqueSet` all of these except the events about pods,
//! of a `PodCliqueScalingGroup` the events about its `PodClique`s, of a `PodClique` the events about pods.

/// Pods were created.
pub const POD_CREATE_SUCCESSFUL: &str = "PodCreateSuccessful";
/// The API server rejected the create or the update of pods.
pub const POD_CREATE_FAILED: &str = "PodCreateFailed";
/// Pods were deleted.
pub const POD_DELETE_SUCCESSFUL: &str = "PodDeleteSuccessful";
/// The API server rejected the delete of pods.
pub const POD_DELETE_FAILED: &str = "PodDeleteFailed";

/// Cliques of a scaling group were created or updated.
pub const POD_CLIQUE_CREATE_SUCCESSFUL: &str = "PodCliqueCreateSuccessful";
/// The API server rejected the create or the update of cliques of a scaling group.
pub const POD_CLIQUE_CREATE_FAILED: &str = "PodCliqueCreateFailed";
/// Standalone cliques were created or updated.
pub const POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL: &str = "PodCliqueCreateOrUpdateSuccessful";
/// The API server rejected the create or the update of standalone cliques.
pub const POD_CLIQUE_CREATE_OR_UPDATE_FAILED: &str = "PodCliqueCreateOrUpdateFailed";
/// Cliques were deleted.
pub const POD_CLIQUE_DELETE_SUCCESSFUL: &str = "PodCliqueDeleteSuccessful";
/// The API server rejected the delete of cliques.
pub const POD_CLIQUE_DELETE_FAILED: &str = "PodCliqueDeleteFailed";

/// Scaling groups were created or updated.
pub const POD_CLIQUE_SCALING_GROUP_CREATE_SUCCESSFUL: &str = "PodCliqueScalingGroupCreateSuccessful";
/// The API server rejected the create or the update of scaling groups.
pub const POD_CLIQUE_SCALING_GROUP_CREATE_OR_UPDATE_FAILED: &str = "PodCliqueScalingGroupCreateOrUpdateFailed";
/// Scaling groups were deleted.
pub const POD_CLIQUE_SCALING_GROUP_DELETE_SUCCESSFUL: &str = "PodCliqueScalingGroupDeleteSuccessful";
/// The API server rejected the delete of scaling groups.
pub const POD_CLIQUE_SCALING_GROUP_DELETE_FAILED: &str = "PodCliqueScalingGroupDeleteFailed";

/// Gangs were created or updated.
pub const POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL: &str = "PodGangCreateOrUpdateSuccessful";
/// The API server rejected the create or the update of gangs.
pub const POD_GANG_CREATE_OR_UPDATE_FAILED: &str = "PodGangCreateOrUpdateFailed";
/// Gangs were deleted.
pub const POD_GANG_DELETE_SUCCESSFUL: &str = "PodGangDeleteSuccessful";
/// The API server rejected the delete of gangs.
pub const POD_GANG_DELETE_FAILED: &str = "PodGangDeleteFailed";

/// The API server rejected the create or the update of headless Services.
pub const SERVICE_CREATE_OR_UPDATE_FAILED: &str = "ServiceCreateOrUpdateFailed";
/// The API server rejected the create or the update of autoscalers.
pub const HORIZONTAL_POD_AUTOSCALER_CREATE_OR_UPDATE_FAILED: &str = "HorizontalPodAutoscalerCreateOrUpdateFailed";
/// The API server rejected the create, the update or the delete of the `ServiceAccount`, the Role, the `RoleBinding` or the token by which
/// waiting pods read the pods of their gang.
pub const STARTUP_IDENTITY_FAILED: &str = "StartupIdentityFailed";
/// The API server rejected the create, the update or the delete of the `ControllerRevision` of a template.
pub const CONTROLLER_REVISION_FAILED: &str = "ControllerRevisionFailed";
/// The API server rejected the create or the update of the `PodGroup` of a gang.
pub const POD_GROUP_CREATE_OR_UPDATE_FAILED: &str = "PodGroupCreateOrUpdateFailed";

/// The topology object of a scheduler is missing or has other levels.
pub const TOPOLOGY_DRIFT_DETECTED: &str = "TopologyDriftDetected";
/// All topology objects of schedulers have the levels of the topology again, or for the first time.
pub const TOPOLOGY_IN_SYNC: &str = "TopologyInSync";
/// The API server rejected the create or the delete of the topology object of a scheduler.
pub const SCHEDULER_TOPOLOGY_CREATE_OR_UPDATE_FAILED: &str = "SchedulerTopologyCreateOrUpdateFailed";
/// Grove manages a topology that a user created, because the configuration has the levels of the default topology.
pub const DEFAULT_TOPOLOGY_ADOPTED: &str = "DefaultTopologyAdopted";
/// Grove restored the levels of the default topology, or applied those of a changed configuration.
pub const DEFAULT_TOPOLOGY_UPDATED: &str = "DefaultTopologyUpdated";
/// The API server rejected the levels of the default topology, or they cannot change now.
pub const DEFAULT_TOPOLOGY_UPDATE_FAILED: &str = "DefaultTopologyUpdateFailed";

/// Compute domains were created.
pub const COMPUTE_DOMAIN_CREATED: &str = "ComputeDomainCreated";
/// The API server rejected the create or the update of compute domains, or an object that the set does not control has the name of one.
pub const COMPUTE_DOMAIN_FAILED: &str = "ComputeDomainFailed";
/// The daemon of a node of a compute domain cannot take part in its clique.
pub const COMPUTE_DOMAIN_DAEMON_REJECTED: &str = "ComputeDomainDaemonRejected";
/// Grove does not synchronize the state of a compute domain, because another manager does, or because its strategy is unknown.
pub const COMPUTE_DOMAIN_NOT_SYNCHRONIZED: &str = "ComputeDomainNotSynchronized";

/// Shared claims were created, or their lost labels or owner references were restored.
pub const RESOURCE_CLAIM_CREATE_SUCCESSFUL: &str = "ResourceClaimCreateSuccessful";
/// The API server rejected the create or the update of shared claims.
pub const RESOURCE_CLAIM_CREATE_FAILED: &str = "ResourceClaimCreateFailed";
/// Shared claims were deleted.
pub const RESOURCE_CLAIM_DELETE_SUCCESSFUL: &str = "ResourceClaimDeleteSuccessful";
/// The API server rejected the delete of shared claims.
pub const RESOURCE_CLAIM_DELETE_FAILED: &str = "ResourceClaimDeleteFailed";
/// The template of shared claims does not exist.
pub const RESOURCE_CLAIM_TEMPLATE_NOT_FOUND: &str = "ResourceClaimTemplateNotFound";

/// The label of a `PodGang` names a scheduler that the configuration does not have.
pub const SCHEDULER_UNKNOWN: &str = "SchedulerUnknown";

/// The value of an annotation that another service writes cannot be read, or has a later version.
pub const UNREADABLE_ANNOTATION: &str = "UnreadableAnnotation";
