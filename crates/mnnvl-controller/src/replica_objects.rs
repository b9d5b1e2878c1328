//! The cliques and pods of a replica of a set, with only the fields that show whether the replica still uses its domains.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::Index;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer, Serialize};

/// The cliques of each replica of a set.
pub(crate) const BY_REPLICA_OF_CLIQUE: Index<SlimClique> = Index { name: "replica", values: replica_of };
/// The pods of each replica of a set.
pub(crate) const BY_REPLICA_OF_POD: Index<SlimPod> = Index { name: "replica", values: replica_of };

/// A clique in a cache. It must never be sent to the API server, because all fields that are missing here would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = PodClique)]
pub(crate) struct SlimClique {
    /// The metadata without annotations, and with only the labels that name the replica.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// A pod in a cache. It must never be sent to the API server, either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct SlimPod {
    /// The metadata without annotations and owners, and with only the labels that name the replica.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    status: SlimPodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SlimPodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
}

fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.annotations = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == PART_OF || key == SET_REPLICA);
    }
    Ok(metadata)
}

impl SlimClique {
    /// Whether the clique may still create pods. A clique of another owner has the labels by mistake.
    pub(crate) fn is_active(&self) -> bool {
        !is_terminating(self) && is_controlled_by_set_or_group(&self.metadata)
    }
}

impl SlimPod {
    /// Whether the pod is neither terminating nor finished.
    pub(crate) fn is_live(&self) -> bool {
        let is_finished = matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        !is_terminating(self) && !is_finished
    }
}

/// Whether a set or a scaling group controls the object. If the owner does not exist, the garbage collector deletes the
/// object. If the owner does not need a clique, pcs-controller deletes the clique.
pub(crate) fn is_controlled_by_set_or_group(metadata: &ObjectMeta) -> bool {
    controller_of(metadata)
        .is_some_and(|owner| is_of_kind::<PodCliqueSet>(owner) || is_of_kind::<PodCliqueScalingGroup>(owner))
}

/// Whether the object has the labels that name a replica of a set.
pub(crate) fn is_of_replica<K: Resource>(object: &K) -> bool {
    let labels = object.labels();
    labels.contains_key(PART_OF) && labels.contains_key(SET_REPLICA)
}

fn replica_of<K: Resource>(object: &K) -> Vec<Cow<'_, str>> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let labels = object.labels();
    let set_and_replica = labels.get(PART_OF).zip(labels.get(SET_REPLICA));
    set_and_replica.map(|(set, replica)| Cow::Owned(replica_key(namespace, set, replica))).into_iter().collect()
}

/// Namespace and name of a set, and a replica; none of them contains a slash.
pub(crate) fn replica_key(namespace: &str, set: &str, replica: &str) -> String {
    format!("{namespace}/{set}/{replica}")
}

/// The labels that all cliques and pods of the replica have; without a replica, those of the whole set.
pub(crate) fn selector(set: &str, replica: Option<i32>) -> BTreeMap<String, String> {
    let mut selector = BTreeMap::from([(PART_OF.to_owned(), set.to_owned())]);
    selector.extend(replica.map(|replica| (SET_REPLICA.to_owned(), replica.to_string())));
    selector
}
