//! API group `grove.io/v1alpha1`: the kinds that users write, and the kinds that Grove derives from them.

pub mod auto_scaling;
pub mod cluster_topology;
pub mod cluster_topology_binding;
pub mod pod_clique;
pub mod pod_clique_scaling_group;
pub mod pod_clique_set;
pub mod resource_sharing;
pub mod rolling_update;
mod status;
pub mod topology_constraint;

pub use auto_scaling::AutoScalingConfig;
pub use cluster_topology::{
    ClusterTopology, ClusterTopologyLevel, ClusterTopologySpec, ClusterTopologyStatus, NodesWithoutKey,
};
pub use cluster_topology_binding::{
    ClusterTopologyBinding, ClusterTopologyBindingSpec, ClusterTopologyBindingStatus, SchedulerTopologyBinding,
    SchedulerTopologyStatus, TopologyBindingLevel,
};
pub use pod_clique::{PodClique, PodCliqueSpec, PodCliqueStatus, PodCliqueUpdateProgress, PodsSelectedToUpdate};
pub use pod_clique_scaling_group::{
    PodCliqueScalingGroup, PodCliqueScalingGroupSpec, PodCliqueScalingGroupStatus, PodCliqueScalingGroupUpdateProgress,
    ReplicaIndicesSelectedToUpdate,
};
pub use pod_clique_set::{
    CliqueStartupType, HeadlessServiceConfig, PodCliqueScalingGroupConfig, PodCliqueSet,
    PodCliqueSetReplicaUpdateProgress, PodCliqueSetSpec, PodCliqueSetStatus, PodCliqueSetTemplateSpec,
    PodCliqueSetUpdateProgress, PodCliqueSetUpdateStrategy, PodCliqueTemplateSpec, PodGangStatus, PodGangStatusPhase,
    UpdateStrategyType,
};
pub use resource_sharing::{
    PcsResourceSharingFilter, PcsResourceSharingSpec, PcsgResourceSharingFilter, PcsgResourceSharingSpec,
    ResourceClaimTemplateConfig, ResourceSharingScope, ResourceSharingSpec, SharedResourceClaimTemplates,
};
pub use rolling_update::{RollingUpdate, SetRollingUpdate};
pub use status::LastError;
pub use topology_constraint::{TopologyConstraint, TopologyPackConstraint};

/// The upper limit of each field `replicas`.
pub const MAX_REPLICAS: i32 = 100_000;
