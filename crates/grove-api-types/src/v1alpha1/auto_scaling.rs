//! The configuration of an autoscaler of a clique or of a scaling group.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::raw::RawMetricSpec;

/// The configuration of a `HorizontalPodAutoscaler`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoScalingConfig {
    /// The smallest number of replicas. Defaults to `replicas` of the same object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The largest number of replicas.
    pub max_replicas: i32,
    /// The metrics of the autoscaler, unchanged. Without metrics, Kubernetes targets 80 % of the requested CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<MetricSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub metrics: Vec<RawMetricSpec>,
}
