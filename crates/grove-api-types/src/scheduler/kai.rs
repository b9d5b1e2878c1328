//! The scheduler `kai-scheduler`.

use super::{Backend, GangSupport, PodIdentity, PodMetadata, Queues, TopologySupport, map};

/// Label or annotation of sets and cliques: the queue. The label has precedence.
pub const QUEUE: &str = "kai.scheduler/queue";
/// Annotation of pods and gangs: KAI creates no `PodGroup` for them, because Grove does.
const SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";

pub(super) const BACKEND: Backend = Backend {
    name: "kai-scheduler",
    gangs: GangSupport::OwnPodGroups,
    pod_metadata,
    gang_annotations: &[(SKIP_POD_GROUPER, "true")],
    queues: Queues::Required { key: QUEUE, display_name: "KAI" },
    topology: TopologySupport::Supported,
};

fn pod_metadata(PodIdentity { gang, clique }: PodIdentity<'_>) -> PodMetadata {
    PodMetadata {
        labels: map([("kai.scheduler/subgroup-name", clique)]),
        annotations: map([(SKIP_POD_GROUPER, "true"), ("pod-group-name", gang)]),
    }
}
