//! What is deployed: one set, whose every replica is one clique of two small pods.

use crate::kubectl::Kubectl;
use anyhow::{Context, Result};
use grove_api_types::v1alpha1::PodCliqueSet;
use serde_json::json;

pub(super) const NAMESPACE: &str = "grove-bench";
pub(super) const SET: &str = "scale";
pub(super) const PODS_PER_REPLICA: u32 = 2;

/// The set with this many replicas.
pub(super) fn set(replicas: u32) -> Result<PodCliqueSet> {
    let container = json!({
        "name": "main",
        "image": "registry.example/pause:1",
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
    });
    let clique = json!({
        "name": "worker",
        "spec": {
            "roleName": "worker",
            "replicas": PODS_PER_REPLICA,
            "minAvailable": PODS_PER_REPLICA,
            "podSpec": { "containers": [container] },
        },
    });
    let set = json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": { "name": SET, "namespace": NAMESPACE },
        "spec": { "replicas": replicas, "template": { "cliques": [clique] } },
    });
    serde_json::from_value(set).context("the set of the benchmark is not a set")
}

/// The namespace, and the account without which the API server refuses pods.
pub(super) async fn make_namespace(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n")).await?;
    kubectl.run(&["wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s"]).await.map(drop)
}
