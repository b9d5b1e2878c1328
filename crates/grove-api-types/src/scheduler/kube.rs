//! The default scheduler of Kubernetes.

use super::{Backend, GangSupport, PodMetadata, Queues, TopologySupport};

pub(super) const BACKEND: Backend = Backend {
    name: "default-scheduler",
    gangs: GangSupport::WorkloadApi,
    pod_metadata: |_| PodMetadata { labels: super::map([]), annotations: super::map([]) },
    gang_annotations: &[],
    queues: Queues::None,
    topology: TopologySupport::WithPodGroups,
};
