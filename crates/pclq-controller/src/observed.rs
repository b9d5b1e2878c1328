//! What every feature reads of a clique: the clique and its pods. Plain data and pure queries.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueName, PodCliqueSetName, PodGangName};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::expectations::PendingCreates;
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::UnreadableObject;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::write_history::CliqueWrites;

/// A clique and its pods as in the caches, and the writes of this process that the caches may lack.
#[derive(Clone, Debug)]
pub(crate) struct ObservedClique {
    /// The clique, with Grove's defaults applied.
    pub(crate) clique: PodClique,
    /// Whether its deletion keeps its pods.
    pub(crate) orphans_pods: bool,
    /// The pods that it controls, sorted by name.
    pub(crate) pods: Vec<Arc<SlimPod>>,
    /// The pods without a controller that carry the labels of this clique and are not terminating, sorted by name.
    pub(crate) orphans: Vec<Arc<SlimPod>>,
    /// The pods that it controls, or that have no controller, carry its labels and are not terminating, that could not be decoded and
    /// have no earlier state. Their indices are unknown.
    pub(crate) unreadable_pods: Vec<Arc<UnreadableObject>>,
    /// The last deleted pod of each index.
    pub(crate) tombstones: Vec<Arc<SlimPod>>,
    /// The number of relists of the pods.
    pub(crate) relists: u64,
    /// The created pods with pending watch events.
    pub(crate) pending_creates: PendingCreates,
    /// The names of its pods and the version of its gang in earlier writes of this process.
    pub(crate) own_writes: CliqueWrites,
    /// When the snapshot was taken.
    pub(crate) now: Timestamp,
    /// Whether its namespace is terminating. Then no pod is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

/// The position of a clique in its set, from its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CliqueIdentity {
    /// The set.
    pub(crate) set: PodCliqueSetName,
    /// The index of the set's replica.
    pub(crate) replica: i32,
    /// The gang of its pods.
    pub(crate) gang: PodGangName,
}

impl ObservedClique {
    /// Whether the clique has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.clique)
    }

    /// The pods that wait for the scheduler. Gated pods do not.
    pub(crate) fn waiting_pods(&self) -> impl Iterator<Item = &SlimPod> {
        self.live().filter(|pod| !pod.is_scheduled() && !pod.is_gated())
    }

    /// The name of the clique.
    pub(crate) fn name(&self) -> PodCliqueName {
        PodCliqueName::new(self.clique.name_any())
    }

    /// The uid of the clique.
    pub(crate) fn uid(&self) -> &str {
        self.clique.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The pods that are neither terminating nor finished. An orphan is live and occupies its index.
    pub(crate) fn live(&self) -> impl Iterator<Item = &SlimPod> {
        self.pods.iter().chain(&self.orphans).map(Arc::as_ref).filter(|pod| pod.is_live())
    }

    /// Whether the clique controls the pod.
    pub(crate) fn owns(&self, pod: &SlimPod) -> bool {
        self.orphans.binary_search_by(|orphan| orphan.metadata.name.cmp(&pod.metadata.name)).is_err()
    }

    /// The existing pods, and the last deleted pod of each index.
    pub(crate) fn known_pods(&self) -> impl Iterator<Item = &SlimPod> {
        self.pods.iter().chain(&self.orphans).chain(&self.tombstones).map(Arc::as_ref)
    }

    /// The position of the clique in its set, or the first label that is missing or invalid.
    pub(crate) fn identity(&self) -> Result<CliqueIdentity, &'static str> {
        let label = |key| self.clique.labels().get(key).filter(|value| !value.is_empty()).ok_or(key);
        Ok(CliqueIdentity {
            set: PodCliqueSetName::new(label(labels::PART_OF)?),
            replica: label(labels::SET_REPLICA)?.parse().map_err(|_| labels::SET_REPLICA)?,
            gang: PodGangName::new(label(labels::POD_GANG)?),
        })
    }
}
