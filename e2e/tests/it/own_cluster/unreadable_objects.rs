//! Objects that a service cannot decode, or that hold times beyond its range, affect no other object.
//!
//! The test creates them with kubectl in namespaces that it does not watch, because its own watches are typed, too.

use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, fixtures, metrics};
use grove_api_types::v1alpha1::PodCliqueSet;
use serde_json::{Value, json};

/// Objects that any user with the role `edit` can create.
const OBJECTS: &str = "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: legacy}
spec: {maxReplicas: 2, scaleTargetRef: {kind: ReplicationController, name: web}}
---
apiVersion: v1
kind: Service
metadata: {name: strange}
spec: {ports: [{port: 80}]}
---
apiVersion: grove.io/v1alpha1
kind: PodClique
metadata: {name: strange}
spec: {roleName: r, replicas: 1, podSpec: {containers: [{name: c, image: i}]}}
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: strange}
spec: {replicas: 0, template: {cliques: [{name: a, spec: {roleName: r, podSpec: {containers: [{name: c, image: i}]}}}]}}
";
const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];
/// The schema of a number in the CRD of gangs.
const MIN_REPLICAS: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/podgroups/items/properties/minReplicas";

async fn kubectl(cluster: &TestCluster, namespace: &str, arguments: &[&str], input: &str) -> String {
    let arguments = [&["--namespace", namespace][..], arguments].concat();
    let output = kubectl_on(cluster, &arguments, input).await;
    output.unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
}

/// Repeats a JSON patch until the API server accepts it: a changed CRD takes effect a moment later.
async fn patch(cluster: &TestCluster, namespace: &str, object: &str, change: &Value) {
    let change = change.to_string();
    let arguments = ["--namespace", namespace, "patch", object, "--type=json", "--patch", change.as_str()];
    poll_until(async || kubectl_on(cluster, &arguments, "").await.ok()).await;
}

async fn restart_services(cluster: &TestCluster) {
    for service in SERVICES {
        cluster.stop(service).await;
    }
    cluster.start_again().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_times_beyond_the_range_and_old_autoscalers_affect_no_set() {
    let cluster = TestCluster::with_own_services("strange-objects", &[]).await;
    kubectl(&cluster, "default", &["create", "--filename", "-"], OBJECTS).await;
    // The manager owns a field that the patch does not change; otherwise the API server would remove its entry.
    for (object, version, field) in [
        ("service/strange", "v1", "f:type"),
        ("podclique.grove.io/strange", "grove.io/v1alpha1", "f:replicas"),
        ("podcliqueset.grove.io/strange", "grove.io/v1alpha1", "f:replicas"),
    ] {
        let manager = json!({ "manager": "x", "operation": "Update", "apiVersion": version, "time": "9999-12-31T23:59:59Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { field: {} } } });
        let change = json!({ "metadata": { "labels": { "x": "y" }, "managedFields": [manager] } }).to_string();
        kubectl(&cluster, "default", &["patch", object, "--type=merge", "--patch", &change], "").await;
        let stored = kubectl(&cluster, "default", &["get", object, "--show-managed-fields", "--output=yaml"], "").await;
        assert!(stored.contains("9999-12-31T23:59:59Z"), "the API server did not store the time: {stored}");
    }
    restart_services(&cluster).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-strange").await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", |state| fixtures::three_cliques_are_ready(state, 1)).await;
    // An update of the strange set passes admission, too.
    kubectl(&cluster, "default", &["label", "podcliqueset.grove.io/strange", "z=1"], "").await;
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_child_is_reported_by_its_own_set_only() {
    let cluster = TestCluster::with_own_services("unreadable-child", &[]).await;
    let set = |name: &str| fixtures::three_cliques(name, 1);
    let of_own = "e2e-unreadable-child";
    kubectl(&cluster, "default", &["create", "namespace", of_own], "").await;
    kubectl(&cluster, of_own, &["create", "--filename", "-"], &set("own")).await;
    poll_until(async || kubectl_on(&cluster, &["--namespace", of_own, "get", "podgang", "own-0"], "").await.ok()).await;
    let errors = async || {
        let path = "--output=jsonpath={.status.lastErrors[*].description}";
        kubectl(&cluster, of_own, &["get", "podcliqueset", "own", path], "").await
    };

    // No client can store an unreadable gang while the CRD is in force.
    let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let change = json!([{ "op": "replace", "path": MIN_REPLICAS, "value": any }]);
    patch(&cluster, "default", "crd/podgangs.scheduler.grove.io", &change).await;
    let min_replicas =
        |value: Value| json!([{ "op": "replace", "path": "/spec/podgroups/0/minReplicas", "value": value }]);
    patch(&cluster, of_own, "podgang/own-0", &min_replicas(json!("many"))).await;
    poll_until(async || errors().await.contains("PodGang own-0 exists and could not be decoded").then_some(())).await;

    restart_services(&cluster).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-unreadable-other").await;
    ns.wait_until_admitted(&set("llm")).await;
    ns.create_yaml::<PodCliqueSet>(&set("llm")).await;
    let state = ns.wait_for("the set is ready", |state| fixtures::three_cliques_are_ready(state, 1)).await;
    assert!(state.sets["llm"].status.as_ref().is_some_and(|status| status.last_errors.is_empty()));
    poll_until(async || errors().await.contains("PodGang own-0 exists and could not be decoded").then_some(())).await;
    let samples = metrics::scrape(&cluster, "pcs-controller").await;
    assert_eq!(samples.get(r#"grove_unreadable_objects{kind="PodGang"}"#), Some(&1.0));
    cluster.wait_for_log("pcs-controller", "the object could not be decoded").await;

    patch(&cluster, of_own, "podgang/own-0", &min_replicas(json!(1))).await;
    poll_until(async || errors().await.is_empty().then_some(())).await;
    cluster.down().await;
}
