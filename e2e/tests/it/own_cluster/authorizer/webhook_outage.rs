//! While no webhook server runs, only changes of objects with Grove's label fail, except for deletions of pods and
//! `ComputeDomain`s.

use e2e::TestCluster;
use e2e::kubectl::kubectl_on;
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use serde_json::{Value, json};

/// Bounds a hang.
const TIMEOUT: &str = "--timeout=10m";

pub(super) async fn only_protected_changes_fail(cluster: &TestCluster) {
    cluster.stop("webhook-server").await;
    for is_managed in [false, true] {
        for mut object in objects() {
            let kind = object["kind"].as_str().expect("a kind").to_lowercase();
            let name = format!("{kind}/{}", object["metadata"]["name"].as_str().expect("a name"));
            if is_managed {
                object["metadata"]["labels"] = json!({ MANAGED_BY: GROVE_OPERATOR });
            }
            succeeds(cluster, &["create", "-f", "-"], &object.to_string()).await;
            let label = ["label", name.as_str(), "a=b"];
            let delete = ["delete", name.as_str(), "--wait=false"];
            if !is_managed {
                succeeds(cluster, &label, "").await;
                succeeds(cluster, &delete, "").await;
                succeeds(cluster, &["wait", "--for=delete", &name, TIMEOUT], "").await;
                continue;
            }
            fails(cluster, &label).await;
            // The webhook does not cover deletions of these kinds.
            if ["pod", "computedomain"].contains(&kind.as_str()) {
                succeeds(cluster, &delete, "").await;
            } else {
                fails(cluster, &delete).await;
            }
        }
    }
}

/// One object of each group of kinds in the webhook configuration, of the kinds whose creation it does not cover.
fn objects() -> [Value; 4] {
    let pod = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    [
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "webhook-outage" }, "spec": { "clusterIP": "None" } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "webhook-outage" } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "webhook-outage" }, "spec": pod }),
        json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": { "name": "webhook-outage" }, "spec": {} }),
    ]
}

async fn succeeds(cluster: &TestCluster, arguments: &[&str], input: &str) {
    kubectl_on(cluster, arguments, input).await.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"));
}

async fn fails(cluster: &TestCluster, arguments: &[&str]) {
    let error = kubectl_on(cluster, arguments, "").await.expect_err("no webhook server runs");
    assert!(error.contains("failed calling webhook \"authorizer.webhooks.grove.io\""), "{arguments:?}: {error}");
}
