//! `HorizontalPodAutoscaler`s, reduced to the fields that Grove writes.

use grove_api_types::raw::RawMetricSpec;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

/// An autoscaler as Grove writes it and as the cache stores it. Other fields, for example `behavior`, belong to users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = HorizontalPodAutoscaler)]
pub(crate) struct Autoscaler {
    /// It has the name of its scale target.
    pub(crate) metadata: ObjectMeta,
    /// Its scale target, bounds and metrics.
    #[serde(default)]
    pub(crate) spec: AutoscalerSpec,
}

/// The scale target, bounds and metrics of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AutoscalerSpec {
    /// The object with the scale subresource that it writes.
    pub(crate) scale_target_ref: TargetRef,
    /// The minimum number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_replicas: Option<i32>,
    /// The maximum number of replicas.
    pub(crate) max_replicas: i32,
    /// The metrics that it follows.
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
