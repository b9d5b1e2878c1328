//! Decodes objects of the API server: without their managed fields, and with every time that the API server stores.
//!
//! Any client may write a manager with a time of the year 9999 into the managed fields of an object. The API server stores
//! such times, and `jiff` cannot represent them.

use std::{fmt, marker::PhantomData};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::Value;

/// Replaces a time that `jiff` cannot represent. It is nearly the maximum of `jiff`.
const LATEST_TIME: &str = "9999-12-30T22:00:00Z";

/// Decodes an object from JSON. Its managed fields are skipped.
pub fn decode<K: DeserializeOwned>(json: &str) -> Result<K, serde_json::Error> {
    let mut from = serde_json::Deserializer::from_str(json);
    let object = decode_from(&mut from)?;
    from.end()?;
    Ok(object)
}

/// Decodes an object. Its managed fields are skipped.
pub fn decode_from<'de, K: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<K, D::Error> {
    K::deserialize(ObjectDeserializer { inner: from, level: Level::Object })
}

/// An object of any kind without its other fields.
#[derive(Debug, Default, Deserialize)]
pub struct ObjectMetadata {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

/// The fields of the metadata that identify an object. They are read even if other fields cannot be decoded.
pub(crate) fn decode_identity(json: &str) -> ObjectMeta {
    if let Ok(ObjectMetadata { metadata }) = decode(json) {
        return ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            owner_references: metadata.owner_references,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
    }
    let UntypedObject { metadata } = serde_json::from_str(json).unwrap_or_default();
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).map(str::to_owned);
    let label = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let labels = metadata.get("labels").and_then(Value::as_object);
    ObjectMeta {
        labels: labels.map(|labels| labels.iter().filter_map(label).collect()),
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

#[derive(Default, Deserialize)]
struct UntypedObject {
    #[serde(default)]
    metadata: Value,
}

/// The reason for which an object could not be decoded. It contains no value of the object, because a log may contain it.
pub(crate) fn reason_without_values(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let starts_with = |starts: &[&str]| starts.iter().any(|start| message.starts_with(start));
    if starts_with(&["missing field `", "duplicate field `"]) {
        return message.to_owned();
    }
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected);
    let names_a_type = starts_with(&["invalid type: ", "invalid value: ", "invalid length ", "unknown variant `"]);
    match expected.filter(|_| names_a_type) {
        Some(expected) => format!("the value of a field is not {expected}"),
        None => "the value of a field is invalid".to_owned(),
    }
}

/// Decodes an optional time. A time that cannot be represented becomes the latest one.
pub fn optional_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| representable_time(text).parse().map(Time).map_err(D::Error::custom)).transpose()
}

fn representable_time(text: String) -> String {
    if text.parse::<Timestamp>().is_ok() { text } else { LATEST_TIME.to_owned() }
}

/// The part of an object to which a deserializer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
}

/// Deserializes an object or its metadata.
struct ObjectDeserializer<D> {
    inner: D,
    level: Level,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectDeserializer<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(ObjectVisitor { inner: visitor, level: self.level })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

struct ObjectVisitor<V> {
    inner: V,
    level: Level,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ObjectVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(ObjectFields { fields, level: self.level, next: NextValue::Other })
    }
}

/// The fields of an object or of its metadata, without the managed fields.
struct ObjectFields<A> {
    fields: A,
    level: Level,
    next: NextValue,
}

/// The value after the current field name.
#[derive(Clone, Copy)]
enum NextValue {
    Metadata,
    Time,
    Other,
}

impl NextValue {
    fn of(level: Level, field: &str) -> Self {
        match (level, field) {
            (Level::Object, "metadata") => Self::Metadata,
            (Level::Metadata, "creationTimestamp" | "deletionTimestamp") => Self::Time,
            _ => Self::Other,
        }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ObjectFields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(field) = self.fields.next_key::<String>()? {
            if self.level == Level::Metadata && field == "managedFields" {
                self.fields.next_value::<IgnoredAny>()?;
                continue;
            }
            self.next = NextValue::of(self.level, &field);
            let field: value::StringDeserializer<A::Error> = field.into_deserializer();
            return seed.deserialize(field).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.next {
            NextValue::Metadata => self.fields.next_value_seed(MetadataSeed(seed)),
            NextValue::Time => {
                let text = self.fields.next_value::<Option<String>>()?.map(representable_time);
                seed.deserialize(TimeDeserializer { text, error: PhantomData })
            }
            NextValue::Other => self.fields.next_value_seed(seed),
        }
    }
}

struct MetadataSeed<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for MetadataSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(ObjectDeserializer { inner, level: Level::Metadata })
    }
}

/// Deserializes a time or null.
struct TimeDeserializer<E> {
    text: Option<String>,
    error: PhantomData<E>,
}

impl<'de, E: Error> Deserializer<'de> for TimeDeserializer<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.text {
            Some(text) => visitor.visit_string(text),
            None => visitor.visit_unit(),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        if self.text.is_some() { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::{api::DynamicObject, core::PartialObjectMeta};
    use serde_json::json;

    use super::*;

    /// A manager with a time that `jiff` cannot represent.
    fn with_unrepresentable_times() -> String {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "managedFields": "stays" },
            "metadata": {
                "managedFields": [{ "manager": "m", "time": "9999-12-31T23:59:59Z", "fieldsV1": { "f:data": {} } }],
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "9999-12-31T23:59:59Z",
                "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": { "managedFields": "v" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "o", "uid": "ou", "controller": true }],
            },
        })
        .to_string()
    }

    #[track_caller]
    fn check(metadata: &ObjectMeta) {
        assert_eq!(metadata.managed_fields, None);
        assert_eq!(metadata.creation_timestamp, Some(Time("2026-01-02T03:04:05Z".parse().unwrap())));
        assert_eq!(metadata.deletion_timestamp, Some(Time(LATEST_TIME.parse().unwrap())));
        assert_eq!(metadata.labels.as_ref().unwrap()["managedFields"], "v");
        assert_eq!(metadata.owner_references.as_ref().unwrap()[0].uid, "ou");
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("a"), Some("5")));
    }

    #[test]
    fn managed_fields_are_skipped_and_unrepresentable_times_are_replaced_in_every_type() {
        let json = with_unrepresentable_times();
        assert!(serde_json::from_str::<ConfigMap>(&json).is_err(), "the time does not disturb anything");
        let map: ConfigMap = decode(&json).unwrap();
        check(&map.metadata);
        assert_eq!(map.data.unwrap()["managedFields"], "stays");
        let dynamic: DynamicObject = decode(&json).unwrap();
        check(&dynamic.metadata);
        assert_eq!(dynamic.data["data"]["managedFields"], "stays");
        check(&decode::<PartialObjectMeta<ConfigMap>>(&json).unwrap().metadata);
        check(&decode::<ObjectMetadata>(&json).unwrap().metadata);
    }

    #[test]
    fn an_object_that_does_not_match_its_type_is_an_error() {
        let pod = |spec: &Value| decode::<Pod>(&json!({ "metadata": { "name": "a" }, "spec": spec }).to_string());
        assert!(pod(&json!({ "containers": [] })).is_ok());
        assert!(pod(&json!({ "containers": 5 })).is_err());
        assert!(decode::<Pod>("{} {}").is_err());
        assert!(decode::<Pod>("[]").is_err());
    }

    #[test]
    fn the_identity_of_an_object_with_invalid_metadata_is_read() {
        let json =
            json!({ "metadata": { "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": 7 } });
        let metadata = decode_identity(&json.to_string());
        let texts = [&metadata.name, &metadata.namespace, &metadata.uid, &metadata.resource_version];
        assert_eq!(texts.map(|text| text.as_deref().unwrap()), ["a", "ns", "u", "5"]);
        assert_eq!(decode_identity(r#"{"metadata":{"name":7,"uid":"u"}}"#).uid.as_deref(), Some("u"));
        assert_eq!(decode_identity("[]"), ObjectMeta::default());
    }

    #[test]
    fn the_identity_contains_the_labels() {
        let labels = |metadata: &Value| {
            let labels = decode_identity(&json!({ "metadata": metadata }).to_string()).labels.unwrap_or_default();
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(labels(&json!({ "labels": { "a": "b", "c": "d" } })), ["a=b", "c=d"]);
        assert_eq!(labels(&json!({ "name": 7, "labels": { "a": "b", "c": 5 } })), ["a=b"], "the name is invalid");
        assert!(labels(&json!({ "labels": 7 })).is_empty());
    }

    #[test]
    fn the_reason_contains_no_value_of_the_object() {
        let reason = |spec: &Value| {
            let json = json!({ "metadata": { "name": "a" }, "spec": spec }).to_string();
            reason_without_values(&decode::<Pod>(&json).unwrap_err())
        };
        let types = reason(&json!({ "containers": "secret, expected x" }));
        assert!(types.starts_with("the value of a field is not ") && !types.contains("secret"), "{types}");
        let secret = json!({ "containers": [{ "name": "c", "image": { "secret": 1 } }] });
        assert!(!reason(&secret).contains("secret"), "{}", reason(&secret));
        let time = json!({ "metadata": { "name": "a" }, "status": { "startTime": "secret" } }).to_string();
        assert_eq!(reason_without_values(&decode::<Pod>(&time).unwrap_err()), "the value of a field is invalid");
    }
}
