//! A client that behaves as Dynamo's operator: it changes the hash of each clique in the template of a set, and reads from its informers when the new
//! pods serve. It must never read this before the last new pod is ready.

use e2e::{Namespace, NamespaceState, in_namespace, namespace_state::is_ready};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

const SETS: usize = 10;
/// Of each set. A restart comes after each two updates.
const UPDATES: usize = 5;
/// The label with which Dynamo marks the cliques of a deployment.
const HASH: &str = "nvidia.com/dynamo-component-hash";
/// The annotation with which Dynamo restarts the pods of a deployment.
const RESTARTED_AT: &str = "nvidia.com/restart-at";
/// The pods of each set.
const PODS: usize = 3;

fn set(name: &str) -> String {
    let pod_spec = "{containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 10m}}}]}";
    let clique = |name: &str| {
        format!(
            "{{name: {name}, labels: {{{HASH}: first}}, annotations: {{note: kept}}, spec: {{roleName: {name}, podSpec: {pod_spec}}}}}"
        )
    };
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    cliques:
    - {}
    - {}
    - {}
    podCliqueScalingGroups:
    - {{name: decode, cliqueNames: [leader, worker], replicas: 1}}
",
        clique("frontend"),
        clique("leader"),
        clique("worker")
    )
}

/// Whether Dynamo would report that the deployment of this generation is done.
fn is_done(state: &NamespaceState, name: &str, generation: i64) -> bool {
    let Some(set) = state.sets.get(name) else { return false };
    let Some(status) = &set.status else { return false };
    if status.observed_generation.is_none_or(|observed| observed < generation) {
        return false;
    }
    let clique = |clique: &PodClique| is_clique_done(clique, status.current_generation_hash.as_ref());
    let group = |group: &PodCliqueScalingGroup| is_group_done(group, status.current_generation_hash.as_ref());
    let (frontend, decode) = (format!("{name}-0-frontend"), format!("{name}-0-decode"));
    state.cliques.get(&frontend).is_some_and(clique) && state.groups.get(&decode).is_some_and(group)
}

fn is_clique_done(clique: &PodClique, hash: Option<&String>) -> bool {
    let Some(status) = &clique.status else { return false };
    let counts = [status.ready_replicas, status.updated_replicas, status.replicas.unwrap_or(0)];
    status.observed_generation >= clique.metadata.generation
        && counts.iter().all(|count| *count == clique.spec.replicas)
        && status.current_pod_clique_set_generation_hash.as_ref() == hash
        && status.update_progress.as_ref().is_none_or(|progress| progress.update_ended_at.is_some())
}

fn is_group_done(group: &PodCliqueScalingGroup, hash: Option<&String>) -> bool {
    let Some(status) = &group.status else { return false };
    status.observed_generation >= group.metadata.generation
        && [status.available_replicas, status.updated_replicas].iter().all(|count| *count == group.spec.replicas)
        && status.current_pod_clique_set_generation_hash.as_ref() == hash
        && status.update_progress.as_ref().is_none_or(|progress| progress.update_ended_at.is_some())
}

/// Writes this label or annotation into each clique of the template, and returns the generation of the set.
async fn write(ns: &Namespace, name: &str, (field, key, value): (&str, &str, &str)) -> i64 {
    let operation = |clique: usize| {
        let path = format!("/spec/template/cliques/{clique}/{field}/{}", key.replace('/', "~1"));
        json!({ "op": "add", "path": path, "value": value })
    };
    let patch = Patch::Json::<()>(serde_json::from_value((0..3).map(operation).collect()).expect("a patch"));
    let patched = ns.api::<PodCliqueSet>().patch(name, &PatchParams::default(), &patch).await;
    patched.expect("the set is patched").metadata.generation.expect("a generation")
}

/// Waits until Dynamo would report that the deployment is done. Then the API server has only new, ready pods.
async fn deploy(ns: &Namespace, name: &str, (field, key, value): (&str, &str, &str)) {
    let generation = write(ns, name, (field, key, value)).await;
    ns.wait_for(&format!("{name} has {value}"), |state| is_done(state, name, generation)).await;
    let of_set = ListParams::default().labels(&format!("app.kubernetes.io/part-of={name}"));
    let pods = ns.api::<Pod>().list(&of_set).await.expect("the pods").items;
    let active: Vec<_> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    assert_eq!(active.len(), PODS, "{name}: all pods exist");
    for pod in active {
        let of_pod = if field == "labels" { pod.labels().get(key) } else { pod.annotations().get(key) };
        assert_eq!(of_pod.map(String::as_str), Some(value), "{} is done with an old pod", pod.name_any());
        assert!(is_ready(pod), "{} is done and not ready", pod.name_any());
    }
}

async fn rounds(ns: &Namespace, name: &str) {
    ns.create_yaml::<PodCliqueSet>(&set(name)).await;
    ns.wait_for(&format!("{name} serves"), |state| is_done(state, name, 1)).await;
    for update in 1..=UPDATES {
        deploy(ns, name, ("labels", HASH, &format!("hash-{update}"))).await;
        if update % 2 == 0 {
            deploy(ns, name, ("annotations", RESTARTED_AT, &format!("restart-{update}"))).await;
        }
    }
}

/// 50 updates and 20 restarts: that takes half a minute.
#[tokio::test]
async fn done_is_never_read_before_the_last_new_pod_is_ready() {
    in_namespace("e2e-dynamo", async |ns| {
        let names: Vec<_> = (0..SETS).map(|index| format!("dgd-{index}")).collect();
        join_all(names.iter().map(|name| rounds(ns, name))).await;
    })
    .await;
}
