//! While no webhook server runs, requests that no rule concerns pass: the webhook configurations do not match them.

use e2e::TestCluster;
use e2e::kubectl::kubectl_on;
use grove_api_types::labels::{AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME};
use grove_api_types::scheduler::{kai, volcano};
use serde_json::{Value, json};

use super::run;

const SET: &str = "podcliqueset/newer";
const TOPOLOGY: &str = "clustertopology/newer";

/// Bounds a hang.
const TIMEOUT: &str = "--timeout=10m";

pub(super) async fn requests_without_rules_pass(cluster: &TestCluster) {
    for how in ["label", "annotate"] {
        run(cluster, &[how, SET, &format!("{}=queue", kai::QUEUE)], "").await;
    }
    cluster.stop("webhook-server").await;
    unmatched_requests_pass(cluster).await;
    matched_requests_fail(cluster).await;
    updates_of_terminating_objects_pass(cluster).await;
}

async fn unmatched_requests_pass(cluster: &TestCluster) {
    patch(cluster, SET, &["--subresource=status"], &json!({ "status": { "replicas": 7 } })).await;
    patch(cluster, SET, &[], &json!({ "metadata": { "finalizers": ["test.grove.io/keep"] } })).await;
    patch(cluster, TOPOLOGY, &[], &json!({ "metadata": { "labels": { "a": "b" } } })).await;
    run(cluster, &["label", SET, "team=blue"], "").await;
    run(cluster, &["annotate", SET, "example.com/note=any text"], "").await;
    run(cluster, &["scale", SET, "--replicas=2"], "").await;
    run(cluster, &["create", "configmap", "unrelated"], "").await;
    run(cluster, &["create", "service", "clusterip", "unrelated", "--clusterip=None"], "").await;
    patch(cluster, "service/unrelated", &[], &json!({ "metadata": { "labels": { "a": "b" } } })).await;
}

async fn matched_requests_fail(cluster: &TestCluster) {
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "webhook-outage" },
        "spec": { "template": { "cliques": [{ "name": "a", "spec": { "podSpec": { "containers": [{ "name": "a" }] } } }] } } });
    let topology = json!({ "spec": { "levels": [{ "domain": "host", "key": "host" }] } }).to_string();
    fails(cluster, &["create", "-f", "-"], &set.to_string()).await;
    fails(cluster, &["patch", SET, "--type=merge", "-p", r#"{"spec":{"template":{"terminationDelay":"2h"}}}"#], "")
        .await;
    for key in [AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME, kai::QUEUE, volcano::QUEUE] {
        let change = format!("{key}=other");
        fails(cluster, &["label", SET, "--overwrite", &change], "").await;
        fails(cluster, &["annotate", SET, "--overwrite", &change], "").await;
    }
    let removed = format!("{}-", kai::QUEUE);
    for (how, all) in [("label", "labels"), ("annotate", "annotations")] {
        fails(cluster, &[how, SET, &removed], "").await;
        let all = json!({ "metadata": { all: null } }).to_string();
        fails(cluster, &["patch", SET, "--type=merge", "-p", &all], "").await;
    }
    fails(cluster, &["scale", SET, "--replicas=3"], "").await;
    fails(cluster, &["patch", TOPOLOGY, "--type=merge", "-p", &topology], "").await;
}

/// Updates of terminating objects are not matched.
async fn updates_of_terminating_objects_pass(cluster: &TestCluster) {
    let finalizer = json!({ "metadata": { "finalizers": ["test.grove.io/keep"] } });
    let topology = json!({ "spec": { "levels": [{ "domain": "host", "key": "other" }] } });
    let set = json!({ "metadata": { "labels": { kai::QUEUE: "left" } }, "spec": { "template": { "terminationDelay": "3h" } } });
    patch(cluster, TOPOLOGY, &[], &finalizer).await;
    for (object, change) in [(SET, set), (TOPOLOGY, topology)] {
        run(cluster, &["delete", object, "--wait=false"], "").await;
        patch(cluster, object, &[], &change).await;
        patch(cluster, object, &[], &json!({ "metadata": { "finalizers": null } })).await;
        run(cluster, &["wait", "--for=delete", object, TIMEOUT], "").await;
    }
}

async fn patch(cluster: &TestCluster, object: &str, how: &[&str], patch: &Value) {
    let patch = patch.to_string();
    run(cluster, &[&["patch", object, "--type=merge", "-p", &patch], how].concat(), "").await;
}

/// A webhook configuration matches the request, so it fails without a webhook server.
async fn fails(cluster: &TestCluster, arguments: &[&str], input: &str) {
    let error = kubectl_on(cluster, arguments, input).await.expect_err("no webhook server runs");
    assert!(error.contains("failed calling webhook"), "{arguments:?}: {error}");
}
