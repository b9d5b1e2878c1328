//! How many replicas an autoscaler may choose, of a clique or of a scaling group.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use k8s_openapi::api::autoscaling::v2::MetricSpec;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::raw::RawMetricSpec;

/// Asks for a `HorizontalPodAutoscaler`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoScalingConfig {
    /// The fewest replicas. Defaults to the `replicas` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The most replicas.
    pub max_replicas: i32,
    /// What the autoscaler looks at, handed to it as it is. Without any, Kubernetes aims at 80 % of the requested CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<MetricSpec>>")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub metrics: Vec<RawMetricSpec>,
}
