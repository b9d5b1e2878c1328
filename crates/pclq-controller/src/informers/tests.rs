//! Random edits of one pod affect no other pod.

use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::{Cache, DecodedObject, InformerOptions};
use grove_test_support::list_items::{self, Key};
use serde_json::json;

#[test]
fn an_edited_pod_affects_no_other_pod() {
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z" });
    let container = json!({ "name": "c", "ready": true, "started": true, "restartCount": 3 });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "edited", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "9999-12-31T23:59:59Z", "labels": { "grove.io/podclique": "a" },
            "managedFields": [{ "manager": "m", "time": "9999-12-31T23:59:59Z" }] },
        "spec": { "nodeName": "n", "hostname": "h", "schedulingGates": [{ "name": "g" }] },
        "status": { "phase": "Running", "conditions": [ready], "containerStatuses": [container] },
    });
    list_items::check(&pod, |items: &[String], keys: &[Key]| {
        let (cache, writer) = Cache::<SlimPod>::with_writer(InformerOptions::default());
        writer.replace_decoded(items.iter().map(|item| DecodedObject::from_json(item)).collect());
        let state = |(namespace, name): &Key| {
            cache.contains(namespace, name).then(|| cache.unreadable(namespace, name).is_none())
        };
        keys.iter().map(state).collect()
    });
}
