//! The workload: one set, each replica of which is one clique of two small pods.

use anyhow::{Context, Result};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::kubectl::Kubectl;
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
    serde_json::from_value(set).context("the set of the benchmark is not valid")
}

/// Creates the namespace, and waits for its default ServiceAccount: without one the API server rejects pods.
pub(super) async fn create_namespace(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n")).await?;
    kubectl.run(&["wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s"]).await?;
    Ok(())
}
