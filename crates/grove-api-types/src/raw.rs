//! Parts of an object that stay raw JSON, so that no field of any version of Kubernetes is lost.

mod intern_pool;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::resource::v1::ResourceClaimTemplateSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The raw JSON of a Kubernetes type `K`, with the schema of `K`. Clones and equal values share one allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw<K> {
    fields: Arc<Map<String, Value>>,
    kind: PhantomData<fn() -> K>,
}

/// The raw JSON of a `core/v1` `PodSpec`.
pub type RawPodSpec = Raw<PodSpec>;
/// The raw JSON of an `autoscaling/v2` `MetricSpec`.
pub type RawMetricSpec = Raw<MetricSpec>;
/// The raw JSON of a `resource.k8s.io/v1` `ResourceClaimTemplateSpec`.
pub type RawResourceClaimTemplateSpec = Raw<ResourceClaimTemplateSpec>;

impl<K> Raw<K> {
    /// All fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// One field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    /// One field, if it is a string.
    pub fn string(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    /// The fields for changes. A shared allocation is copied first (copy on write).
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        Arc::make_mut(&mut self.fields)
    }
}

impl<K> From<Map<String, Value>> for Raw<K> {
    fn from(fields: Map<String, Value>) -> Self {
        Self { fields: Arc::new(fields), kind: PhantomData }
    }
}

impl<K> Serialize for Raw<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

impl<'de, K> Deserialize<'de> for Raw<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(|fields| Self { fields: intern_pool::intern(fields), kind: PhantomData })
    }
}

impl<K: JsonSchema> JsonSchema for Raw<K> {
    fn schema_name() -> Cow<'static, str> {
        format!("Raw.{}", K::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        K::json_schema(generator)
    }
}
