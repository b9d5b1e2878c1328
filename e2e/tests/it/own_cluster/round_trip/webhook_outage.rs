//! While nobody answers the API server's questions, what concerns no rule goes on: it is not asked about at all.

use e2e::Plane;
use e2e::kubectl::kubectl_on;
use grove_api_types::labels::{AUTO_MNNVL, KAI_QUEUE, MNNVL_GROUP, TOPOLOGY_NAME, VOLCANO_QUEUE};
use serde_json::{Value, json};

use super::run;

const SET: &str = "podcliqueset/newer";
const TOPOLOGY: &str = "clustertopology/newer";

/// It bounds a hang.
const FOR_LONG: &str = "--timeout=10m";

pub(super) async fn what_concerns_no_rule_passes(plane: &Plane) {
    for how in ["label", "annotate"] {
        run(plane, &[how, SET, &format!("{KAI_QUEUE}=queue")], "").await;
    }
    plane.end("webhook-server").await;
    what_no_rule_reads(plane).await;
    what_rules_read(plane).await;
    who_leaves(plane).await;
}

async fn what_no_rule_reads(plane: &Plane) {
    patch(plane, SET, &["--subresource=status"], &json!({ "status": { "replicas": 7 } })).await;
    patch(plane, SET, &[], &json!({ "metadata": { "finalizers": ["test.grove.io/stays"] } })).await;
    patch(plane, TOPOLOGY, &[], &json!({ "metadata": { "labels": { "a": "b" } } })).await;
    run(plane, &["label", SET, "team=blue"], "").await;
    run(plane, &["annotate", SET, "example.com/note=nobody asks"], "").await;
    run(plane, &["scale", SET, "--replicas=2"], "").await;
    run(plane, &["create", "configmap", "unrelated"], "").await;
    run(plane, &["create", "service", "clusterip", "unrelated", "--clusterip=None"], "").await;
    patch(plane, "service/unrelated", &[], &json!({ "metadata": { "labels": { "a": "b" } } })).await;
}

async fn what_rules_read(plane: &Plane) {
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "unanswered" },
        "spec": { "template": { "cliques": [{ "name": "a", "spec": { "podSpec": { "containers": [{ "name": "a" }] } } }] } } });
    let topology = json!({ "spec": { "levels": [{ "domain": "host", "key": "host" }] } }).to_string();
    waits(plane, &["create", "-f", "-"], &set.to_string()).await;
    waits(plane, &["patch", SET, "--type=merge", "-p", r#"{"spec":{"template":{"terminationDelay":"2h"}}}"#], "").await;
    for key in [AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME, KAI_QUEUE, VOLCANO_QUEUE] {
        let change = format!("{key}=other");
        waits(plane, &["label", SET, "--overwrite", &change], "").await;
        waits(plane, &["annotate", SET, "--overwrite", &change], "").await;
    }
    let removed = format!("{KAI_QUEUE}-");
    for (how, all) in [("label", "labels"), ("annotate", "annotations")] {
        waits(plane, &[how, SET, &removed], "").await;
        let all = json!({ "metadata": { all: null } }).to_string();
        waits(plane, &["patch", SET, "--type=merge", "-p", &all], "").await;
    }
    waits(plane, &["scale", SET, "--replicas=3"], "").await;
    waits(plane, &["patch", TOPOLOGY, "--type=merge", "-p", &topology], "").await;
}

/// Whatever becomes of it meanwhile.
async fn who_leaves(plane: &Plane) {
    let kept = json!({ "metadata": { "finalizers": ["test.grove.io/stays"] } });
    let topology = json!({ "spec": { "levels": [{ "domain": "host", "key": "other" }] } });
    let set = json!({ "metadata": { "labels": { KAI_QUEUE: "left" } }, "spec": { "template": { "terminationDelay": "3h" } } });
    patch(plane, TOPOLOGY, &[], &kept).await;
    for (object, change) in [(SET, set), (TOPOLOGY, topology)] {
        run(plane, &["delete", object, "--wait=false"], "").await;
        patch(plane, object, &[], &change).await;
        patch(plane, object, &[], &json!({ "metadata": { "finalizers": null } })).await;
        run(plane, &["wait", "--for=delete", object, FOR_LONG], "").await;
    }
}

async fn patch(plane: &Plane, object: &str, how: &[&str], patch: &Value) {
    let patch = patch.to_string();
    run(plane, &[&["patch", object, "--type=merge", "-p", &patch], how].concat(), "").await;
}

/// It is asked about, and so it has to wait for an answer.
async fn waits(plane: &Plane, arguments: &[&str], input: &str) {
    let words = kubectl_on(plane, arguments, input).await.expect_err("somebody would have to answer");
    assert!(words.contains("failed calling webhook"), "{arguments:?}: {words}");
}
