//! LPX. It gets pods with its name, and no further objects.

use super::{Backend, GangSupport, PodMetadata, Queues, TopologySupport};

pub(super) const BACKEND: Backend = Backend {
    name: "lpx-scheduler",
    gangs: GangSupport::None,
    pod_metadata: |_| PodMetadata { labels: super::map([]), annotations: super::map([]) },
    gang_annotations: &[],
    queues: Queues::None,
    topology: TopologySupport::Denied(|_| NO_TOPOLOGY.to_owned()),
};

const NO_TOPOLOGY: &str = "lpx-scheduler does not support Grove topology constraints; placement topology must be expressed \
                           through the LPX workload contract";
