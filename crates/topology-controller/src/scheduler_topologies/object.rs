//! A topology object of any scheduler as Grove writes it and as the cache stores it.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use grove_api_types::ownership::controller_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::SchedulerTopologyApi;

/// The cache stores at most this many levels of an object: Grove's topologies have fewer, so the object differs in any case.
const MAX_LEVELS: usize = 65;

/// A topology object in the API `A`.
pub(crate) struct SchedulerTopology<A> {
    metadata: ObjectMeta,
    node_labels: Vec<String>,
    api: PhantomData<fn() -> A>,
}

/// A live topology object of any scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveSchedulerTopology {
    /// The node labels of its levels.
    pub(crate) node_labels: Vec<String>,
    /// The generation of its spec.
    pub(crate) generation: Option<i64>,
    /// The UID of its controller.
    pub(crate) controller: Option<String>,
    /// Whether it is terminating.
    pub(crate) is_terminating: bool,
}

impl<A> SchedulerTopology<A> {
    /// An object to create, or to compare a live one with.
    pub(super) fn new(metadata: ObjectMeta, node_labels: Vec<String>) -> Self {
        Self { metadata, node_labels, api: PhantomData }
    }

    /// Whether both objects have the same levels.
    pub(super) fn has_same_levels(&self, other: &Self) -> bool {
        self.node_labels == other.node_labels
    }

    pub(super) fn as_live(&self) -> LiveSchedulerTopology {
        let Self { metadata, node_labels, api: _ } = self;
        LiveSchedulerTopology {
            node_labels: node_labels.clone(),
            generation: metadata.generation,
            controller: controller_of(metadata).map(|controller| controller.uid.clone()),
            is_terminating: metadata.deletion_timestamp.is_some(),
        }
    }
}

// Derives would require that `A` has the traits.
impl<A> Clone for SchedulerTopology<A> {
    fn clone(&self) -> Self {
        Self::new(self.metadata.clone(), self.node_labels.clone())
    }
}

impl<A> Debug for SchedulerTopology<A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { metadata, node_labels, api: _ } = self;
        f.debug_struct("SchedulerTopology").field("metadata", metadata).field("node_labels", node_labels).finish()
    }
}

impl<A: SchedulerTopologyApi> Serialize for SchedulerTopology<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("SchedulerTopology", 2)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &A::spec(&self.node_labels))?;
        object.end()
    }
}

/// Anybody may write the other fields.
#[derive(Deserialize)]
struct RawTopology {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

impl<'de, A: SchedulerTopologyApi> Deserialize<'de> for SchedulerTopology<A> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let RawTopology { mut metadata, spec } = RawTopology::deserialize(from)?;
        (metadata.labels, metadata.annotations) = (None, None);
        let mut node_labels = A::node_labels(&spec);
        node_labels.truncate(MAX_LEVELS);
        Ok(Self::new(metadata, node_labels))
    }
}

impl<A: SchedulerTopologyApi> Resource for SchedulerTopology<A> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Topology".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        A::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        A::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        A::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
