//! The finalizers that Grove sets, and those that the Go operator sets on sets, scaling groups and cliques. Grove sets none on these
//! three kinds, and removes theirs from a terminating object that it has adopted: the Go operator, which would remove them, no longer runs.

/// On each `ClusterTopology`. It stays while a set refers to the topology.
pub const CLUSTER_TOPOLOGY: &str = "grove.io/clustertopology";

/// On each `ComputeDomain` of a set. It stays while pods may use the domain.
pub const COMPUTE_DOMAIN: &str = "grove.io/computedomain-finalizer";

/// On each `ComputeDomain` of which Grove synchronizes the state, on its `DaemonSet`, and on its claim templates: the finalizer of NVIDIA's
/// driver, which Grove replaces.
pub const COMPUTE_DOMAIN_STATE: &str = "resource.nvidia.com/computeDomain";

/// On each `PodCliqueSet`.
pub const POD_CLIQUE_SET: &str = "grove.io/podcliqueset.grove.io";
/// On each `PodCliqueScalingGroup`.
pub const SCALING_GROUP: &str = "grove.io/podcliquescalinggroup.grove.io";
/// On each `PodClique`.
pub const POD_CLIQUE: &str = "grove.io/podclique.grove.io";
