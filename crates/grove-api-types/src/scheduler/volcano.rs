//! The scheduler `volcano`.

use super::{Backend, GangSupport, PodIdentity, PodMetadata, Queues, TopologySupport, map};

/// Annotation of sets and cliques: the queue.
pub const QUEUE: &str = "scheduling.grove.io/volcano-queue";
/// The queue of a set without a queue.
pub const DEFAULT_QUEUE: &str = "default";

pub(super) const BACKEND: Backend = Backend {
    name: "volcano",
    gangs: GangSupport::OwnPodGroups,
    pod_metadata,
    gang_annotations: &[],
    queues: Queues::Defaulted { annotation: QUEUE, default: DEFAULT_QUEUE, display_name: "volcano" },
    topology: TopologySupport::Denied(|object| {
        format!("volcano scheduler backend does not support topologyConstraint on {object}")
    }),
};

fn pod_metadata(PodIdentity { gang, clique: _ }: PodIdentity<'_>) -> PodMetadata {
    let annotations = map([("scheduling.k8s.io/group-name", gang), ("scheduling.volcano.sh/group-name", gang)]);
    PodMetadata { labels: map([]), annotations }
}
