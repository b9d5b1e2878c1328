//! Autoscalers of Kubernetes scale groups and sets by the usage of their pods, with a stand-in for the metrics API.

use e2e::kubectl::kubectl;
use e2e::namespace_state::is_ready;
use e2e::{Namespace, NamespaceState, TestCluster, in_namespace, propagation};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const METRICS: &str = include_str!("../../crds/pod-metrics.yaml");
const NEW_IMAGE: &str = "registry.k8s.io/pause:3.9";
const CRD: &str = "pods.metrics.k8s.io";

/// The metric of both autoscalers.
const METRIC: &str = "{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}";

/// A set of four pods, or with this scaling group, which has four pods in each replica.
fn set(name: &str, group: &str) -> String {
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    cliques:
    - {{name: leader, spec: {{replicas: 1, podSpec: &pod {{containers: [{{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: {{memory: 100Mi}}}}}}]}}}}}}
    - {{name: worker, spec: {{replicas: 3, podSpec: *pod}}}}
    podCliqueScalingGroups: [{group}]
"
    )
}

/// A group with an autoscaler, which Grove creates.
fn group() -> String {
    let scale = format!("{{maxReplicas: 20, metrics: [{METRIC}]}}");
    format!("{{name: g, replicas: 2, cliqueNames: [leader, worker], scaleConfig: {scale}}}")
}

/// An autoscaler of a user for the set without a group: Kubernetes does not scale by pods that two autoscalers select.
fn autoscaler() -> String {
    format!(
        "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: of-set}}
spec:
  scaleTargetRef: {{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, name: flat}}
  maxReplicas: 20
  metrics: [{METRIC}]
"
    )
}

/// The pods use 60 % of their memory, and the target is 50 %: the autoscaler multiplies the replicas by 1.2 and rounds up. With all pods
/// in the selector, it would multiply the pods.
/// It takes long because Kubernetes reads the metrics every 15 s.
#[tokio::test]
async fn autoscalers_count_replicas_and_not_pods() {
    in_namespace("e2e-autoscaling", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&set("llm", &group())).await;
        ns.create_yaml::<PodCliqueSet>(&set("flat", "")).await;
        ns.wait_for_ready_pods("llm", 8).await;
        let state = ns.wait_for_ready_pods("flat", 4).await;
        let cluster = TestCluster::shared();
        propagation::kubectl_until_success(
            &cluster,
            &["apply", "--server-side", "--filename=-"],
            METRICS,
            "being deleted",
        )
        .await;
        propagation::wait_for_kinds(&cluster, &[CRD]).await;
        begin_update(ns).await;
        let metrics: Vec<_> = state.pods.values().map(metrics_of).collect();
        apply(ns, &json!({ "apiVersion": "v1", "kind": "List", "items": metrics }).to_string()).await;
        let scaled = |state: &NamespaceState| state.groups["llm-0-g"].spec.replicas != 2;
        let state = ns.wait_for("the group is scaled", scaled).await;
        assert_eq!(state.groups["llm-0-g"].spec.replicas, 3);
        apply(ns, &autoscaler()).await;
        let scaled = |state: &NamespaceState| state.sets["flat"].spec.replicas != 1;
        let state = ns.wait_for("the set is scaled", scaled).await;
        assert_eq!(state.sets["flat"].spec.replicas, 2);
        end_update(ns).await;
        propagation::delete_crd(&ns.client, CRD).await;
    })
    .await;
}

/// Begins an update of the set with a group, and pauses it before the first pod is replaced.
async fn begin_update(ns: &Namespace) {
    let strategy = json!({ "type": "RollingRecreate", "rollingUpdate": { "paused": true } });
    let change = json!([
        { "op": "add", "path": "/spec/updateStrategy", "value": strategy },
        { "op": "replace", "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image", "value": NEW_IMAGE },
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
    ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await.expect("the set is patched");
    ns.wait_for_condition("llm", "UpdateInProgress", "Paused", "the update is paused").await;
}

/// Continues the update, which replaces the pods of all three replicas of the group and keeps their number.
async fn end_update(ns: &Namespace) {
    ns.patch::<PodCliqueSet>("llm", json!({ "spec": { "updateStrategy": { "rollingUpdate": { "paused": false } } } }))
        .await;
    let is_new =
        |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(NEW_IMAGE));
    let has_ended = |state: &NamespaceState| {
        let status = state.sets["llm"].status.as_ref().and_then(|status| status.update_progress.as_ref());
        status.is_some_and(|progress| progress.update_ended_at.is_some())
            && state.pods_of("llm").filter(is_new).filter(|pod| is_ready(pod)).count() == 3
    };
    let state = ns.wait_for("the update has ended", has_ended).await;
    assert_eq!(state.groups["llm-0-g"].spec.replicas, 3, "the autoscaler has scaled the group during the update");
}

async fn apply(ns: &Namespace, manifests: &str) {
    let arguments = ["apply", "--server-side", "--namespace", &ns.name, "--filename=-"];
    kubectl(&arguments, manifests).await.expect("the objects are applied");
}

/// The metrics of a pod have its labels, as those of metrics-server.
fn metrics_of(pod: &Pod) -> Value {
    let usage = json!([{ "name": "main", "usage": { "cpu": "1m", "memory": "60Mi" } }]);
    json!({ "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s", "metadata": { "name": pod.name_any(), "labels": pod.labels() }, "containers": usage })
}
