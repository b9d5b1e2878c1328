//! `PodClique`s with only the fields that the reconciler reads: the pod spec may be large.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::POD_GANG;
use grove_api_types::v1alpha1::PodClique;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};

/// A clique in a cache. It must never be sent to the API server, because all fields that are missing here would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = PodClique)]
pub(crate) struct SlimClique {
    /// The metadata without annotations, and with only the label that names the gang.
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
}

fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.annotations = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == POD_GANG);
    }
    Ok(metadata)
}

impl SlimClique {
    /// The desired number of pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.max(0)
    }

    /// The number of scheduled pods that pclq-controller reports. Those of a terminating clique are terminating, too.
    pub(crate) fn scheduled_replicas(&self) -> i32 {
        if is_terminating(self) { 0 } else { self.status.scheduled_replicas }
    }
}
