//! `HorizontalPodAutoscaler`s, reduced to what Grove writes of them.

use grove_api_types::raw::RawMetricSpec;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

/// An autoscaler as Grove writes it and as the caches hold it. What others may set on it, `behavior` for example, is theirs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = HorizontalPodAutoscaler)]
pub(crate) struct Autoscaler {
    /// Its name is that of what it scales.
    pub(crate) metadata: ObjectMeta,
    /// What it scales, how far, and by what.
    #[serde(default)]
    pub(crate) spec: AutoscalerSpec,
}

/// What an autoscaler scales, how far, and by what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AutoscalerSpec {
    /// The object whose scale subresource it writes.
    pub(crate) scale_target_ref: TargetRef,
    /// The fewest replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_replicas: Option<i32>,
    /// The most replicas.
    pub(crate) max_replicas: i32,
    /// What it looks at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics: Vec<RawMetricSpec>,
}

/// An object with a scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetRef {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}
