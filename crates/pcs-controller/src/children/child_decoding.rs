//! Decodes children of kinds that other programs use, too. Of their objects only the metadata is decoded and stored: a foreign
//! object can have the name of a child, and nothing else about it matters.

use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct RawChild {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
}

/// The metadata and the spec of a child of a set. Of any other object only the metadata is decoded, and its annotations, which
/// may be large, are dropped.
pub(crate) fn metadata_and_spec<'de, D, S>(from: D) -> Result<(ObjectMeta, Option<S>), D::Error>
where
    D: Deserializer<'de>,
    S: DeserializeOwned,
{
    let RawChild { mut metadata, spec } = RawChild::deserialize(from)?;
    if !may_be_child(&metadata) {
        metadata.annotations = None;
        return Ok((metadata, None));
    }
    let spec = spec.map(|spec| serde_json::from_str(spec.get())).transpose().map_err(D::Error::custom)?;
    Ok((metadata, spec))
}

/// Whether the object has the controller of a child, or Grove's label, without which no set adopts it. So a child that lost its
/// labels is decoded and repaired. Many other programs set the label `app.kubernetes.io/part-of`, so it does not count.
fn may_be_child(metadata: &ObjectMeta) -> bool {
    let manager = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    let is_labelled = manager.is_some_and(|manager| manager == GROVE_OPERATOR);
    is_labelled || controller_of(metadata).is_some_and(is_of_kind::<PodCliqueSet>)
}
