//! Random edits of one pod affect no other pod.

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
