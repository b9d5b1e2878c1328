//! The snapshot of a clique, its pods and its gang: plain data and pure queries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueName, PodCliqueSetName, PodGangName};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{MAX_REPLICAS, PodClique};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::UnreadableObject;
use kube::ResourceExt;

use crate::base_gangs::BaseGangState;
use crate::write_history::CliqueWrites;

/// A clique and its pods as in the caches, and the writes of this process that the caches may lack.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
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
    /// The gang of its pods.
    pub(crate) gang: Option<Arc<PodGang>>,
    /// The number of pod references that it may have; `None` if references to all desired pods of its gang fit into the gang.
    pub(crate) limited_references: Option<usize>,
    /// The gang that must be scheduled before its own gang; `None` if its own gang is a base gang.
    pub(crate) base_gang: Option<BaseGang>,
    /// Whether its gang has scaled cliques. Their pods are gated until the gang is scheduled.
    pub(crate) has_scaled_cliques: bool,
    /// The created pods with pending watch events.
    pub(crate) pending_creates: PendingCreates,
    /// The names of its pods and the version of its gang in earlier writes of this process.
    pub(crate) own_writes: CliqueWrites,
    /// The pods that wait for the retry of a rejected create.
    pub(crate) backed_off: BackedOffCreates,
    /// The indices at which pods ended soon after they started, and the time until the next replacement.
    pub(crate) delayed_replacements: BTreeMap<i32, Duration>,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// Whether its namespace is terminating. Then no pod is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

/// A base gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseGang {
    /// Its name.
    pub(crate) name: PodGangName,
    /// Whether it is scheduled.
    pub(crate) state: BaseGangState,
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

impl Observed {
    /// Whether the clique has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.clique)
    }

    /// Whether the clique was stored without validation and has more replicas than a clique may have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.clique.spec.replicas > MAX_REPLICAS
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

    /// Why the pods of the clique keep their scheduling gate; `None` if the gate is to be removed. `base_gangs.rs` decides
    /// whether the base gang is scheduled.
    pub(crate) fn gating_reason(&self) -> Option<String> {
        let BaseGang { name, state } = self.base_gang.as_ref()?;
        match state {
            BaseGangState::NotFound => Some(format!("PodGang {name} must be scheduled first and does not exist")),
            // Without numbers: the clique is not triggered when they change.
            BaseGangState::NotScheduled => {
                Some(format!("PodGang {name} must be scheduled first; a PodClique of it has too few scheduled pods"))
            }
            BaseGangState::Scheduled => None,
        }
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
