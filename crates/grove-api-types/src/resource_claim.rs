//! The `ResourceClaim` and the `ResourceClaimTemplate` of `resource.k8s.io/v1`, with only the fields that Grove reads and writes. The spec is
//! raw JSON, so that no field of a later version of Kubernetes is lost.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::labels::{COMPONENT, Component, GROVE_OPERATOR, MANAGED_BY, POD_CLIQUE, SCALING_GROUP};
use crate::ownership::controller_of;
use crate::raw::RawResourceClaimTemplateSpec;

/// The version of the API. Grove uses no other version of the kinds.
pub const API_VERSION: &str = "resource.k8s.io/v1";

/// The finalizer of a claim that is allocated: the API server deletes the claim once no pod uses it.
const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// A `ResourceClaim`. A cache stores neither its spec, which is immutable, nor its annotations, which Grove only sets at the creation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = v1::ResourceClaim)]
pub struct ResourceClaim {
    /// The metadata.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// The spec of a claim that is to be created.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Map<String, Value>>,
}

impl ResourceClaim {
    /// Whether a scheduler has allocated devices to the claim. Then Kubernetes deletes it only after the pods that use it have ended.
    pub fn is_allocated(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == DELETE_PROTECTION)
    }

    /// The level of a shared claim; `None` if the claim is no shared claim.
    pub fn level(&self) -> Option<SharingLevel> {
        let labels = self.metadata.labels.as_ref()?;
        let is = |key: &str, value: &str| labels.get(key).is_some_and(|label| label == value);
        if !is(MANAGED_BY, GROVE_OPERATOR) || !is(COMPONENT, Component::ResourceClaim.value()) {
            return None;
        }
        Some(match (labels.contains_key(POD_CLIQUE), labels.contains_key(SCALING_GROUP)) {
            (true, _) => SharingLevel::Clique,
            (false, true) => SharingLevel::Group,
            (false, false) => SharingLevel::Set,
        })
    }
}

/// The level at which pods share a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharingLevel {
    /// Pods of a set.
    Set,
    /// Pods of a scaling group.
    Group,
    /// Pods of a clique.
    Clique,
}

impl SharingLevel {
    /// The value of the label `level` of the metric `grove_resource_claims`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Group => "group",
            Self::Clique => "clique",
        }
    }
}

/// The metadata without annotations. Of a claim that Grove cannot own, only the identity and the owners count: it can have the name of a
/// claim of Grove.
fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta { annotations: None, ..ObjectMeta::deserialize(from)? };
    let manager = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    let is_labelled = manager.is_some_and(|manager| manager == GROVE_OPERATOR);
    let is_owned = |owner: &OwnerReference| owner.api_version.starts_with("grove.io/");
    if !is_labelled && !controller_of(&metadata).is_some_and(is_owned) {
        (metadata.labels, metadata.finalizers) = (None, None);
    }
    Ok(metadata)
}

/// A `ResourceClaimTemplate` in a cache: only its identity. Its spec is read when a claim is created from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = v1::ResourceClaimTemplate)]
pub struct SlimResourceClaimTemplate {
    /// The metadata.
    #[serde(default, deserialize_with = "identity")]
    pub metadata: ObjectMeta,
}

/// The metadata that identifies an object, for caches of kinds with large objects.
///
/// # Errors
/// If the metadata cannot be decoded.
pub fn identity<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    ObjectMeta::deserialize(from).map(|metadata| {
        let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata;
        ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
    })
}

/// A `ResourceClaimTemplate` with the spec of its claims, and without its metadata, into which any client may write values that cannot be
/// decoded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = v1::ResourceClaimTemplate)]
pub struct ResourceClaimTemplate {
    /// The metadata; always empty.
    #[serde(skip)]
    pub metadata: ObjectMeta,
    /// The labels, the annotations and the spec of the claims.
    #[serde(default)]
    pub spec: Option<RawResourceClaimTemplateSpec>,
}

/// What a claim gets from its template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimTemplate {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The spec.
    pub spec: Map<String, Value>,
}

impl From<&RawResourceClaimTemplateSpec> for ClaimTemplate {
    fn from(raw: &RawResourceClaimTemplateSpec) -> Self {
        let metadata = raw.get("metadata");
        let strings = |field: &str| string_map(metadata.as_ref().and_then(|metadata| metadata.get(field)));
        let spec = match raw.get("spec") {
            Some(Value::Object(spec)) => spec,
            None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                Map::new()
            }
        };
        Self { labels: strings("labels"), annotations: strings("annotations"), spec }
    }
}

impl From<&ResourceClaimTemplate> for ClaimTemplate {
    fn from(template: &ResourceClaimTemplate) -> Self {
        template.spec.as_ref().map(Self::from).unwrap_or_default()
    }
}

fn string_map(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
