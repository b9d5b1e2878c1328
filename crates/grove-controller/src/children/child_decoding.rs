//! Decodes children of kinds that other programs use, too. Of their objects only the metadata is decoded and stored: a foreign
//! object can have the name of a child, and nothing else about it matters.

use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::ownership::{controller_of, is_of_kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct RawChild {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
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
    let RawChild { mut metadata, spec, status } = RawChild::deserialize(from)?;
    if !may_be_child::<Owner>(&metadata) {
        metadata.annotations = None;
        return Ok(DecodedChild { metadata, spec: None, status: None });
    }
    let spec = spec.map(|spec| serde_json::from_str(spec.get())).transpose().map_err(D::Error::custom)?;
    let status = status.map(|status| serde_json::from_str(status.get())).transpose().map_err(D::Error::custom)?;
    Ok(DecodedChild { metadata, spec, status })
}

/// Whether the object has the controller of a child, or Grove's label, without which no owner adopts it. So a child that lost its
/// labels is decoded and repaired. Many other programs set the label `app.kubernetes.io/part-of`, so it does not count.
fn may_be_child<Owner: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> bool {
    let manager = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    let is_labelled = manager.is_some_and(|manager| manager == GROVE_OPERATOR);
    is_labelled || controller_of(metadata).is_some_and(is_of_kind::<Owner>)
}
