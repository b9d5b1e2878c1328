//! A pod spec kept as the JSON the user wrote, so that no field of any Kubernetes version is ever lost.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The raw JSON of a `core/v1` `PodSpec`. Its schema is Kubernetes' own; copies share one allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct RawPodSpec(Arc<Map<String, Value>>);

impl RawPodSpec {
    /// The fields, as written.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// One field, as written.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// The fields for changing; a shared allocation is copied first.
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Map<String, Value>> for RawPodSpec {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Arc::new(fields))
    }
}

impl Serialize for RawPodSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawPodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for RawPodSpec {
    fn schema_name() -> Cow<'static, str> {
        "RawPodSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        k8s_openapi::api::core::v1::PodSpec::json_schema(generator)
    }
}
