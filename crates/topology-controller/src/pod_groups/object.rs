//! A `PodGroup` of any scheduler as Grove writes it and as the cache stores it.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::children::{DecodedChild, decode_child};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::PodGroupApi;
use crate::json::without_nulls;

/// The number of characters of a message that is reported.
const MAX_MESSAGE: usize = 1024;

/// An API as a type: caches and writes know a kind by its type.
pub(crate) trait ApiType: Send + Sync + 'static {
    /// The API.
    const API: PodGroupApi;
}

/// [`PodGroupApi::Workload`].
#[derive(Debug)]
pub(crate) struct WorkloadApi;

/// [`PodGroupApi::Kai`].
#[derive(Debug)]
pub(crate) struct Kai;

/// [`PodGroupApi::Volcano`].
#[derive(Debug)]
pub(crate) struct Volcano;

impl ApiType for WorkloadApi {
    const API: PodGroupApi = PodGroupApi::Workload;
}

impl ApiType for Kai {
    const API: PodGroupApi = PodGroupApi::Kai;
}

impl ApiType for Volcano {
    const API: PodGroupApi = PodGroupApi::Volcano;
}

/// A `PodGroup` in the API `A`.
pub(crate) struct PodGroup<A> {
    metadata: ObjectMeta,
    /// Empty if the object is no child of a gang. A null requires that a field is absent.
    pub(crate) spec: Value,
    message: Option<String>,
    /// Of a desired object: the fields of the spec that are compared only if the live object lacks them.
    pub(crate) retained_fields: &'static [&'static str],
    api: PhantomData<fn() -> A>,
}

/// A live `PodGroup` in the API of any scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LivePodGroup<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Whether it is terminating.
    pub(crate) is_terminating: bool,
    /// What the scheduler reports about it.
    pub(crate) message: Option<&'a str>,
    /// Its spec.
    pub(crate) spec: &'a Value,
}

impl<A> PodGroup<A> {
    /// An object to create, or to compare a live one with.
    pub(crate) fn new(metadata: ObjectMeta, spec: Value, retained_fields: &'static [&'static str]) -> Self {
        Self { metadata, spec, message: None, retained_fields, api: PhantomData }
    }

    /// The fields that the conditions of the gang describe.
    pub(crate) fn as_live(&self) -> LivePodGroup<'_> {
        let Self { metadata, spec, message, retained_fields: _, api: _ } = self;
        LivePodGroup {
            name: metadata.name.as_deref().unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            message: message.as_deref(),
            spec,
        }
    }
}

// Derives would require that `A` has the traits.
impl<A> Clone for PodGroup<A> {
    fn clone(&self) -> Self {
        let Self { metadata, spec, message, retained_fields, api } = self;
        Self { metadata: metadata.clone(), spec: spec.clone(), message: message.clone(), retained_fields, api: *api }
    }
}

impl<A> Debug for PodGroup<A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodGroup").field("metadata", &self.metadata).field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl<A: ApiType> Serialize for PodGroup<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("PodGroup", 2)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &A::API.encode(without_nulls(&self.spec)))?;
        object.end()
    }
}

impl<'de, A: ApiType> Deserialize<'de> for PodGroup<A> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let DecodedChild { metadata, spec, status } = decode_child::<PodGang, D, Value, Value>(from)?;
        // Anybody may set Grove's label, so the spec of an orphan is not stored.
        let is_child = controller_of(&metadata).is_some_and(is_of_kind::<PodGang>);
        let message = status.as_ref().and_then(|status| A::API.message(status)).map(|message| shortened(&message));
        let spec = spec.filter(|_| is_child).unwrap_or_default();
        Ok(Self { metadata, spec, message, retained_fields: &[], api: PhantomData })
    }
}

/// A condition has at most 32 kB, and a scheduler may report about each of thousands of pods.
fn shortened(message: &str) -> String {
    message.chars().take(MAX_MESSAGE).collect()
}

impl<A: ApiType> Resource for PodGroup<A> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PodGroup".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        A::API.group().into()
    }

    fn version((): &()) -> Cow<'_, str> {
        A::API.version().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "podgroups".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
