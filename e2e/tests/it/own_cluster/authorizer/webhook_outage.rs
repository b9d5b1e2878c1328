//! While nobody answers the API server's questions, only changes of what carries Grove's label wait, and of that no deletion
//! of pods and domains.

use e2e::Plane;
use e2e::kubectl::kubectl_on;
use grove_api_types::labels::{MANAGED_BY, MANAGER};
use serde_json::{Value, json};

/// It bounds a hang.
const FOR_LONG: &str = "--timeout=10m";

pub(super) async fn only_what_is_protected_waits(plane: &Plane) {
    plane.end("webhook-server").await;
    for is_grove_label in [false, true] {
        for mut object in objects() {
            let kind = object["kind"].as_str().expect("a kind").to_lowercase();
            let name = format!("{kind}/{}", object["metadata"]["name"].as_str().expect("a name"));
            if is_grove_label {
                object["metadata"]["labels"] = json!({ MANAGED_BY: MANAGER });
            }
            passes(plane, &["create", "-f", "-"], &object.to_string()).await;
            let label = ["label", name.as_str(), "a=b"];
            let delete = ["delete", name.as_str(), "--wait=false"];
            if !is_grove_label {
                passes(plane, &label, "").await;
                passes(plane, &delete, "").await;
                passes(plane, &["wait", "--for=delete", &name, FOR_LONG], "").await;
                continue;
            }
            waits(plane, &label).await;
            // These are everybody's to delete.
            if ["pod", "computedomain"].contains(&kind.as_str()) {
                passes(plane, &delete, "").await;
            } else {
                waits(plane, &delete).await;
            }
        }
    }
}

/// One of each group of kinds that the authorizer is asked about, of those that may be created unasked.
fn objects() -> [Value; 4] {
    let pod = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    [
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "unanswered" }, "spec": { "clusterIP": "None" } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "unanswered" } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "unanswered" }, "spec": pod }),
        json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": { "name": "unanswered" }, "spec": {} }),
    ]
}

async fn passes(plane: &Plane, arguments: &[&str], input: &str) {
    kubectl_on(plane, arguments, input).await.unwrap_or_else(|words| panic!("kubectl {arguments:?}: {words}"));
}

async fn waits(plane: &Plane, arguments: &[&str]) {
    let words = kubectl_on(plane, arguments, "").await.expect_err("somebody would have to answer");
    assert!(words.contains("failed calling webhook \"authorizer.webhooks.grove.io\""), "{arguments:?}: {words}");
}
