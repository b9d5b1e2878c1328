//! Decodes children of kinds that other programs use, too. Of their objects only the metadata is decoded and stored: a foreign
//! object can have the name of a child, and nothing else about it matters.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::ownership::{controller_of, is_of_kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object with the texts of its fields.
#[derive(Default)]
struct RawObject {
    metadata: ObjectMeta,
    fields: BTreeMap<String, Box<RawValue>>,
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(RawObjectVisitor)
    }
}

struct RawObjectVisitor;

impl<'de> Visitor<'de> for RawObjectVisitor {
    type Value = RawObject;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
        let mut object = RawObject::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "metadata" {
                object.metadata = map.next_value()?;
            } else {
                object.fields.insert(key, map.next_value()?);
            }
        }
        Ok(object)
    }
}

#[derive(Deserialize)]
struct SpecAndStatus<S, T> {
    spec: Option<S>,
    status: Option<T>,
}

/// A child of an owner, or any other object of its kind.
#[derive(Debug)]
pub struct DecodedChild<S, T> {
    /// Its metadata. If the object is no child, its annotations, which may be large, are dropped.
    pub metadata: ObjectMeta,
    /// Its spec; `None` if the object has none, or is no child.
    pub spec: Option<S>,
    /// Its status; `None` if the object has none, or is no child.
    pub status: Option<T>,
}

/// Decodes a child of an owner of kind `Owner`. Of any other object only the metadata is decoded.
///
/// # Errors
/// If the metadata, or the spec or the status of a child cannot be decoded.
pub fn decode_child<'de, Owner, D, S, T>(from: D) -> Result<DecodedChild<S, T>, D::Error>
where
    Owner: Resource<DynamicType = ()>,
    D: Deserializer<'de>,
    S: DeserializeOwned,
    T: DeserializeOwned,
{
    let (metadata, fields) = decode_fields_of_child::<Owner, _, SpecAndStatus<S, T>>(from)?;
    let (spec, status) = fields.map_or((None, None), |SpecAndStatus { spec, status }| (spec, status));
    Ok(DecodedChild { metadata, spec, status })
}

/// Decodes the metadata of any object, and the fields `F` of a child of an owner of kind `Owner`. The annotations of any other object, which may
/// be large, are dropped.
///
/// # Errors
/// If the metadata, or the fields of a child cannot be decoded.
pub fn decode_fields_of_child<'de, Owner, D, F>(from: D) -> Result<(ObjectMeta, Option<F>), D::Error>
where
    Owner: Resource<DynamicType = ()>,
    D: Deserializer<'de>,
    F: DeserializeOwned,
{
    let RawObject { mut metadata, fields } = RawObject::deserialize(from)?;
    if !may_be_child::<Owner>(&metadata) {
        metadata.annotations = None;
        return Ok((metadata, None));
    }
    let text = serde_json::to_string(&fields).map_err(D::Error::custom)?;
    let fields = serde_json::from_str(&text).map_err(D::Error::custom)?;
    Ok((metadata, Some(fields)))
}

/// Whether the object has the controller of a child, or Grove's label, without which no owner adopts it. So a child that lost its
/// labels is decoded and repaired. Many other programs set the label `app.kubernetes.io/part-of`, so it does not count.
pub fn may_be_child<Owner: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> bool {
    let manager = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    let is_labelled = manager.is_some_and(|manager| manager == GROVE_OPERATOR);
    is_labelled || controller_of(metadata).is_some_and(is_of_kind::<Owner>)
}
