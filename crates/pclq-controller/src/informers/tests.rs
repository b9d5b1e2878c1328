//! Random edits of one object affect no other object of its kind.

use grove_api_types::resource_claim::{ResourceClaim, SlimResourceClaimTemplate};
use grove_controller::slim_pod::SlimPod;
use grove_test_support::check_watched_kind;
use serde_json::json;

#[test]
fn an_edited_pod_affects_no_other_pod() {
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z" });
    let container = json!({ "name": "c", "ready": true, "started": true, "restartCount": 3 });
    let fields = json!({
        "spec": { "nodeName": "n", "hostname": "h", "schedulingGates": [{ "name": "g" }] },
        "status": { "phase": "Running", "conditions": [ready], "containerStatuses": [container] },
    });
    check_watched_kind!(SlimPod, fields);
}

#[test]
fn an_edited_claim_affects_no_other_claim() {
    let request = json!({ "name": "gpu", "exactly": { "deviceClassName": "gpu.example.com", "count": 2 } });
    let fields = json!({
        "spec": { "devices": { "requests": [request], "config": [{ "opaque": { "driver": "d", "parameters": { "a": [1] } } }] } },
        "status": { "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }], "allocation": { "devices": {} } },
    });
    check_watched_kind!(ResourceClaim, fields);
}

#[test]
fn an_edited_template_affects_no_other_template() {
    let metadata = json!({ "labels": { "a": "b" }, "annotations": { "c": "d" } });
    let fields =
        json!({ "spec": { "metadata": metadata, "spec": { "devices": { "requests": [{ "name": "gpu" }] } } } });
    check_watched_kind!(SlimResourceClaimTemplate, fields);
}
