//! The policies of the component `controller-policy` for mnnvl-controller's writes outside of its kinds.

use e2e::TestCluster;
use e2e::compute_domains::NODE_LABEL;
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use grove_api_types::{SERVICE_USER_PREFIX, SYSTEM_NAMESPACE};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/controller-policy/policies.yaml");

/// Applies the policies, so that they judge every write of this dev cluster.
pub(super) async fn apply(cluster: &TestCluster) {
    kubectl_on(cluster, &["apply", "--filename", FILE], "").await.expect("the policies are applied");
}

fn daemon_set(account: &str) -> Value {
    let labels = json!({ NODE_LABEL: "u" });
    let pod = json!({ "serviceAccountName": account, "nodeSelector": labels,
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "test", "labels": labels, "finalizers": ["resource.nvidia.com/computeDomain"] },
        "spec": { "selector": { "matchLabels": labels }, "template": template } })
}

/// The account of mnnvl-controller may neither run pods of another account nor change other labels of nodes.
pub(super) async fn other_writes_are_denied(cluster: &TestCluster) {
    let client = cluster.client_as(&format!("{SERVICE_USER_PREFIX}mnnvl-controller"), &[]).await;
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let create = async |account: &str| {
        let object: DaemonSet = serde_json::from_value(daemon_set(account)).expect("a DaemonSet");
        daemon_sets.create(&dry, &object).await.map_err(|error| error.to_string())
    };
    let is_denied = |error: &String| error.contains("only DaemonSets with the account compute-domain-daemon");
    poll_until(async || create("pclq-controller").await.err().filter(is_denied)).await;
    create("compute-domain-daemon").await.expect("the DaemonSet of a domain");

    let nodes = Api::<Node>::all(client);
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let change = Patch::Merge(json!({ "metadata": { "labels": { "example.com/other": "x" } } }));
    let is_denied = |error: &String| error.contains("mnnvl-controller may");
    let patch = async || nodes.patch("node-0", &dry, &change).await.err().map(|error| error.to_string());
    poll_until(async || patch().await.filter(is_denied)).await;
}
