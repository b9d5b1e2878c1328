//! Parts of an object that stay raw JSON, so that no field of any version of Kubernetes is lost.

mod canonical_text;
mod intern_pool;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::resource::v1::ResourceClaimTemplateSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::canonical_text::{Nulls, canonical_text};

/// The raw JSON of a Kubernetes type `K`, with the schema of `K`. It is stored as text: a tree of small maps needs fifty times as many
/// bytes. Clones and equal values share one allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw<K> {
    /// JSON without spaces and with sorted fields, so that equal values have equal texts.
    text: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

/// The raw JSON of a `core/v1` `PodSpec`.
pub type RawPodSpec = Raw<PodSpec>;
/// The raw JSON of an `autoscaling/v2` `MetricSpec`.
pub type RawMetricSpec = Raw<MetricSpec>;
/// The raw JSON of a `resource.k8s.io/v1` `ResourceClaimTemplateSpec`.
pub type RawResourceClaimTemplateSpec = Raw<ResourceClaimTemplateSpec>;

impl<K> Raw<K> {
    /// The JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All fields. Their tree may be large, so do not keep it.
    pub fn fields(&self) -> Map<String, Value> {
        parse(&self.text)
    }

    /// One field. Only this field is parsed.
    pub fn get(&self, field: &str) -> Option<Value> {
        self.field_texts().get(field).map(|text| parse(text.get()))
    }

    /// One field, if it is a string.
    pub fn string(&self, field: &str) -> Option<String> {
        match self.get(field)? {
            Value::String(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn field_texts(&self) -> BTreeMap<String, &RawValue> {
        parse(&self.text)
    }

    /// Sets one field. The other fields are not parsed.
    pub fn insert(&mut self, field: &str, value: impl Into<Value>) {
        let value = text(&value.into());
        let mut fields = self.field_texts();
        fields.insert(field.to_owned(), parse(&value));
        *self = Self::new(text(&fields));
    }

    /// Changes the fields. All of them are parsed.
    pub fn edit<T>(&mut self, edit: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
        let mut fields = self.fields();
        let result = edit(&mut fields);
        *self = Self::from(fields);
        result
    }

    /// The text without the fields of objects that are null.
    pub(crate) fn text_without_nulls(&self) -> String {
        parse::<TextWithoutNulls>(&self.text).0
    }

    fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), kind: PhantomData }
    }
}

struct TextWithoutNulls(String);

impl<'de> Deserialize<'de> for TextWithoutNulls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        canonical_text(deserializer, Nulls::Omitted).map(Self)
    }
}

#[expect(clippy::expect_used, reason = "maps with string keys always serialise")]
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a map serialises")
}

#[expect(clippy::expect_used, reason = "the text was serialised from a map")]
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).expect("the text is an object")
}

impl<K> From<Map<String, Value>> for Raw<K> {
    fn from(fields: Map<String, Value>) -> Self {
        Self::new(text(&fields))
    }
}

impl<K> Serialize for Raw<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        parse::<&RawValue>(&self.text).serialize(serializer)
    }
}

impl<'de, K> Deserialize<'de> for Raw<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = canonical_text(deserializer, Nulls::Retained)?;
        Ok(Self { text: intern_pool::intern(&text), kind: PhantomData })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &Value) -> RawPodSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    #[test]
    fn equal_objects_are_equal_in_any_order_of_their_fields() {
        let [one, other] = [r#"{"a":1,"b":{"d":1,"c":[2]}}"#, r#"{ "b": {"c":[2],"d":1}, "a":1 }"#]
            .map(|text| serde_json::from_str::<RawPodSpec>(text).unwrap());
        assert_eq!(one, other);
        assert!(Arc::ptr_eq(&one.text, &other.text));
        assert_ne!(one, pod(&json!({ "a": 1.0, "b": { "c": [2], "d": 1 } })), "a different number");
        assert_eq!(one, RawPodSpec::from(other.fields()));
        assert_eq!(serde_json::to_string(&one).unwrap(), one.text());
        assert_eq!(json!(one), json!({ "a": 1, "b": { "c": [2], "d": 1 } }));
        assert!(serde_json::from_str::<RawPodSpec>("[]").is_err());
    }

    #[test]
    fn one_field_is_read_and_set_without_the_others() {
        let mut spec = pod(&json!({ "b": "text", "c": null, "d": [1] }));
        assert_eq!((spec.string("b").as_deref(), spec.string("d"), spec.string("e")), (Some("text"), None, None));
        assert_eq!((spec.get("c"), spec.get("e")), (Some(Value::Null), None));
        spec.insert("a", json!([{ "x": 1 }]));
        spec.insert("b", 5);
        assert_eq!(spec.text(), r#"{"a":[{"x":1}],"b":5,"c":null,"d":[1]}"#);
        assert_eq!(spec.edit(|fields| fields.remove("b")), Some(json!(5)));
        assert_eq!(spec.text(), r#"{"a":[{"x":1}],"c":null,"d":[1]}"#);
        assert_eq!(spec.text_without_nulls(), r#"{"a":[{"x":1}],"d":[1]}"#);
    }

    /// The resident memory of this process in megabytes.
    fn resident_mb() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
    }

    /// As trees of maps, these pod specs need more than 300 MB.
    #[test]
    fn dense_pod_specs_need_about_as_much_memory_as_their_text() {
        let dense =
            |name: usize| format!(r#"{{"tolerations":[{{"key":"{name}"}}{}]}}"#, r#",{"key":"a"}"#.repeat(60_000));
        let before = resident_mb();
        let specs: Vec<RawPodSpec> = (0..8).map(|name| serde_json::from_str(&dense(name)).unwrap()).collect();
        let bytes: usize = specs.iter().map(|spec| spec.text().len()).sum();
        assert!(bytes > 5 << 20, "{bytes}");
        let needed = resident_mb().saturating_sub(before);
        assert!(needed < 100, "{needed} MB for {bytes} bytes");
    }
}
