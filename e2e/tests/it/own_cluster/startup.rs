//! The start-up order of sets, with the real init container of each pod.

use std::fmt::Write as _;

use e2e::init_containers::PENDING;
use e2e::{Namespace, NamespaceState};
use grove_api_types::v1alpha1::PodClique;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

mod faults;
mod identity;
mod kills;
mod order;

/// A clique of pods with this behaviour, and the names that it starts after.
fn clique(name: &str, replicas: i32, behaviour: &str, starts_after: &[&str]) -> String {
    let parents = starts_after.join(", ");
    format!(
        "{{name: {name}, annotations: {{test.grove.io/behaviour: {behaviour}}}, spec: {{roleName: {name}, replicas: {replicas}, minAvailable: \
         {replicas}, startsAfter: [{parents}], podSpec: {{containers: [{{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: \
         {{cpu: 1m}}}}}}]}}}}}}"
    )
}

/// A set of these cliques and scaling groups.
fn set(name: &str, startup: &str, cliques: &[String], groups: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {{name: {name}}}\nspec:\n  replicas: 1\n  template:\n    \
         cliqueStartupType: CliqueStartupType{startup}\n    cliques:\n"
    );
    for clique in cliques {
        let _ = writeln!(text, "    - {clique}");
    }
    let _ = writeln!(text, "    podCliqueScalingGroups: [{}]", groups.join(", "));
    text
}

/// A set whose clique `b` starts after `a`, the pods of which are not ready.
fn waiting_set(name: &str, replicas_of_b: i32) -> String {
    let cliques = [clique("a", 1, "unready", &[]), clique("b", replicas_of_b, PENDING, &["a"])];
    set(name, "Explicit", &cliques, &[])
}

/// Sets what the simulated kubelet does with the pods of a clique; `None` makes them ready.
async fn set_behaviour(ns: &Namespace, state: &NamespaceState, clique: &str, behaviour: Option<&str>) {
    let pods = state.pods.values().filter(|pod| pod.labels().get("grove.io/podclique").is_some_and(|of| of == clique));
    for pod in pods {
        let change = json!({ "metadata": { "annotations": { "test.grove.io/behaviour": behaviour } } });
        ns.patch::<k8s_openapi::api::core::v1::Pod>(&pod.name_any(), change).await;
    }
}

/// The number of ready pods of a clique.
fn ready(state: &NamespaceState, clique: &str) -> usize {
    state.ready_indices(clique).len()
}

/// The object without what the API server sets.
fn stored<K>(object: &K) -> Value
where
    K: Resource<DynamicType = ()> + serde::Serialize,
{
    let mut value = serde_json::to_value(object).expect("JSON");
    let metadata = value["metadata"].as_object_mut().expect("metadata");
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(field);
    }
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        // The API server records when it last saw the token.
        labels.remove("kubernetes.io/legacy-token-last-used");
    }
    if let Some(owner) = metadata.get_mut("ownerReferences").and_then(|owners| owners.get_mut(0)) {
        owner["uid"] = json!("<uid>");
    }
    value
}

/// The object of this name, or `None`.
async fn find<K>(ns: &Namespace, name: &str) -> Option<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = ns.api();
    api.get_opt(name).await.ok().flatten()
}

/// Whether all cliques have all their pods ready.
fn all_are_ready(state: &NamespaceState) -> bool {
    let is_ready = |clique: &PodClique| {
        let desired = usize::try_from(clique.spec.replicas).expect("not negative");
        ready(state, &clique.name_any()) == desired
    };
    state.sets.keys().all(|set| state.is_available(set)) && state.cliques.values().all(is_ready)
}
