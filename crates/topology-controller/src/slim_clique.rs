//! `PodClique`s with only the fields that the reconciler reads: the pod spec may be large.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, POD_GANG};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{IndexScope, Sum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer, Serialize};

use crate::slim_set::set_key;

/// The scheduled pods of sets, by namespace and name of the set.
pub(crate) const SCHEDULED_PODS_BY_SET: Sum<SlimClique> =
    Sum { name: "scheduled-pods", value: set_of_clique, amount: scheduled_pods, scope: IndexScope::Namespaced };

fn set_of_clique(clique: &SlimClique) -> Option<String> {
    Some(set_key(&clique.namespace()?, clique.labels().get(PART_OF)?))
}

fn scheduled_pods(clique: &SlimClique) -> usize {
    usize::try_from(clique.status.scheduled_replicas).unwrap_or(0)
}

/// A clique in a cache. It must never be sent to the API server, because all fields that are missing here would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = PodClique)]
pub(crate) struct SlimClique {
    /// The metadata without annotations, and with only the labels that name the set and the gang.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimCliqueSpec,
    #[serde(default)]
    status: SlimCliqueStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimCliqueSpec {
    replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimCliqueStatus {
    scheduled_replicas: i32,
    update_progress: Option<SlimUpdateProgress>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimUpdateProgress {
    update_ended_at: Option<Time>,
}

fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.annotations = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| [PART_OF, POD_GANG].contains(&key.as_str()));
    }
    Ok(metadata)
}

impl SlimClique {
    /// The desired number of pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.max(0)
    }

    /// Whether an update replaces its pods.
    pub(crate) fn is_updating(&self) -> bool {
        self.status.update_progress.as_ref().is_some_and(|progress| progress.update_ended_at.is_none())
    }

    /// Whether pclq-controller reports scheduled pods. The rules of admission count those of a terminating clique, too.
    pub(crate) fn has_scheduled_pods(&self) -> bool {
        self.status.scheduled_replicas > 0
    }

    /// The number of scheduled pods that pclq-controller reports. Those of a terminating clique are terminating, too.
    pub(crate) fn scheduled_replicas(&self) -> i32 {
        if is_terminating(self) { 0 } else { self.status.scheduled_replicas }
    }
}
