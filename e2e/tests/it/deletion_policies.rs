//! Deletions that Kubernetes' garbage collector, the namespace controller or finalizers delay: which objects stay, and for how long.

use std::collections::BTreeMap;

use e2e::namespace_state::is_ready;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, in_namespace};
use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DeleteParams;
use kube::core::NamespaceResourceScope;
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

/// A finalizer of this test: the object stays until the test removes it.
const HOLD: &str = "e2e.example.com/hold";

/// A set with this number of replicas, each with one clique of this number of pods.
fn one_clique(name: &str, replicas: usize, pods: usize) -> String {
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}, finalizers: [{HOLD}]}}
spec:
  replicas: {replicas}
  template:
    cliques:
    - {{name: f, spec: {{roleName: f, replicas: {pods}, podSpec: {{containers: [{{name: main, image: registry.k8s.io/pause:3.10}}]}}}}}}
"
    )
}

/// Removes all finalizers of an object.
async fn release<K>(ns: &Namespace, name: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    ns.patch::<K>(name, json!({ "metadata": { "finalizers": null } })).await;
}

async fn delete_set(ns: &Namespace, name: &str, params: &DeleteParams) {
    ns.api::<PodCliqueSet>().delete(name, params).await.expect("the set is deleted");
}

/// The UIDs of the objects that are not terminating and have this prefix in their names.
fn active_uids<K: Resource>(objects: &BTreeMap<String, K>, prefix: &str) -> Vec<Option<String>> {
    let active = objects.iter().filter(|(name, object)| name.starts_with(prefix) && !is_terminating(*object));
    active.map(|(_, object)| object.uid()).collect()
}

/// The garbage collector releases the children one by one, and removes the finalizer `orphan` while the caches of the controllers
/// may not show all of that. The other finalizer keeps the set terminating.
#[tokio::test]
async fn a_set_with_its_own_finalizer_that_is_deleted_with_cascade_orphan_keeps_all_children() {
    const REPLICAS: usize = 60;
    in_namespace("e2e-delete-orphan", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&one_clique("llm", REPLICAS, 1)).await;
        let uids = |state: &NamespaceState| (active_uids(&state.cliques, "llm-"), active_uids(&state.pods, "llm-"));
        let before = ns
            .wait_for("all pods exist", |state| state.cliques.len() == REPLICAS && state.pods.len() == REPLICAS)
            .await;
        delete_set(ns, "llm", &DeleteParams::orphan()).await;
        ns.wait_for("the garbage collector has released all cliques", |state| {
            let is_released = |clique: &PodClique| clique.owner_references().is_empty();
            state.sets["llm"].finalizers() == [HOLD] && state.cliques.values().all(is_released)
        })
        .await;
        release::<PodCliqueSet>(ns, "llm").await;
        ns.wait_for("the set is deleted", |state| state.sets.is_empty()).await;
        // The controllers observe this set after the deletion of the other.
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("later", 1)).await;
        let after = ns.wait_for("a later set is available", |state| state.is_available("later")).await;
        assert_eq!(uids(&after), uids(&before), "{after}");
    })
    .await;
}

/// The garbage collector watches each kind separately. Several sets, because it receives their changes in different orders.
#[tokio::test]
async fn a_foreground_deletion_ends_after_the_last_pod() {
    const SETS: [&str; 4] = ["a", "b", "c", "d"];
    in_namespace("e2e-delete-foreground", async |ns| {
        for set in SETS {
            ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group(set, 1, "")).await;
        }
        let state = ns
            .wait_for("all pods are ready", |state| {
                SETS.iter().all(|set| state.is_available(set))
                    && state.active_pods().filter(|pod| is_ready(pod)).count() == 14 * SETS.len()
            })
            .await;
        let pod_of = |set: &str| state.pods.keys().find(|name| name.starts_with(&format!("{set}-0-g-1-d-")));
        let held = SETS.map(|set| pod_of(set).expect("a pod of the scaling group"));
        for pod in held {
            ns.patch::<Pod>(pod, json!({ "metadata": { "finalizers": [HOLD] } })).await;
        }
        for set in SETS {
            delete_set(ns, set, &DeleteParams::foreground()).await;
        }
        let state = ns
            .wait_for("only the held pods exist", |state| {
                state.pods.len() == held.len() && state.pods.values().all(is_terminating)
            })
            .await;
        for set in SETS {
            let (group, clique) = (format!("{set}-0-g"), format!("{set}-0-g-1-d"));
            let exists =
                [state.sets.contains_key(set), state.groups.contains_key(&group), state.cliques.contains_key(&clique)];
            assert_eq!(exists, [true; 3], "the set {set}, the scaling group and the clique wait for the pod\n{state}");
        }
        for pod in held {
            release::<Pod>(ns, pod).await;
        }
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    })
    .await;
}

/// Whether the condition `Available` reports that nothing is created because the namespace is terminating.
fn waits_for_namespace(conditions: &[Condition]) -> bool {
    let mut available = conditions.iter().filter(|condition| condition.type_ == "Available");
    available.any(|condition| condition.reason == "NamespaceTerminating")
}

fn clique_waits_for_namespace(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| waits_for_namespace(&status.conditions))
}

/// Kubernetes deletes the pods of a namespace first, and their cliques and sets later. A held pod keeps the namespace terminating.
#[tokio::test]
async fn a_terminating_namespace_receives_no_creates() {
    let cluster = TestCluster::shared();
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-delete-namespace").await;
    let set = fixtures::with_scaling_group("m", 1, "");
    ns.create_yaml::<PodCliqueSet>(&set).await;
    let state =
        ns.wait_for("all pods exist", |state| state.is_available("m") && state.active_pods().count() == 14).await;
    let held = state.pods.keys().find(|name| name.starts_with("m-0-f-")).expect("a pod of the clique f");
    ns.patch::<Pod>(held, json!({ "metadata": { "finalizers": [HOLD] } })).await;
    let namespaces = Api::<KubeNamespace>::all(client.clone());
    let uid = namespaces.get(&ns.name).await.expect("the namespace").uid().expect("a uid");
    ns.delete().await;
    ns.wait_for("only the held pod exists, and pclq-controller has observed the deletion of the namespace", |state| {
        state.pods.len() == 1 && state.cliques.values().all(clique_waits_for_namespace)
    })
    .await;
    let service = state.services.keys().next().expect("a Service");
    ns.delete_object::<Service>(service).await;
    ns.delete_object::<PodClique>("m-0-g-0-p").await;
    ns.wait_for("pcs-controller has observed the deletion of the namespace", |state| {
        let (set, group) = (&state.sets["m"].status, &state.groups["m-0-g"].status);
        set.as_ref().is_some_and(|status| waits_for_namespace(&status.conditions))
            && group.as_ref().is_some_and(|status| waits_for_namespace(&status.conditions))
    })
    .await;
    let log = cluster.audit_log().from_now();
    delete_children_and_scale_out(&ns, &state).await;
    release::<Pod>(&ns, held).await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    let creates = log.creates(&ns.name);
    assert!(creates.is_empty(), "{}", creates.join("\n"));
    await_condition(namespaces, &ns.name, conditions::is_deleted(&uid)).await.expect("the namespace is deleted");
    let again = Namespace::create(&client, &ns.name).await;
    again.create_yaml::<PodCliqueSet>(&set).await;
    again.wait_for("the set is available in a new namespace of this name", |state| state.is_available("m")).await;
    again.delete().await;
}

/// Deletes the gangs and nearly all cliques, and scales their owners. Returns when the controllers have reconciled the owners.
async fn delete_children_and_scale_out(ns: &Namespace, state: &NamespaceState) {
    for gang in state.gangs.keys() {
        ns.delete_object::<PodGang>(gang).await;
    }
    for clique in state.cliques.keys().filter(|name| !["m-0-f", "m-0-g-0-p"].contains(&name.as_str())) {
        ns.delete_object::<PodClique>(clique).await;
    }
    ns.scale::<PodCliqueSet>("m", 2).await;
    ns.scale::<PodCliqueScalingGroup>("m-0-g", 4).await;
    ns.scale::<PodClique>("m-0-f", 3).await;
    ns.wait_for("the controllers have reconciled the scaled owners", |state| {
        let (set, group, clique) = (&state.sets["m"], &state.groups["m-0-g"], &state.cliques["m-0-f"]);
        let are_scaled = [set.spec.replicas, group.spec.replicas, clique.spec.replicas] == [2, 4, 3];
        let generations = [set.metadata.generation, group.metadata.generation, clique.metadata.generation];
        let observed = [
            set.status.as_ref().and_then(|status| status.observed_generation),
            group.status.as_ref().and_then(|status| status.observed_generation),
            clique.status.as_ref().and_then(|status| status.observed_generation),
        ];
        are_scaled && generations == observed && state.gangs.is_empty() && state.cliques.len() == 1
    })
    .await;
}

/// The Go operator sets finalizers on each set, scaling group and clique. After it was replaced, no process but ours removes them.
#[tokio::test]
async fn objects_with_finalizers_of_the_go_operator_are_deleted() {
    in_namespace("e2e-go-finalizers", async |ns| {
        let is_settled = |state: &NamespaceState, replicas: usize| {
            state.is_available("m") && state.groups.len() == replicas && state.pods.len() == replicas * 14
        };
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 2, "")).await;
        let state = ns.wait_for("two replicas are ready", |state| is_settled(state, 2)).await;
        let finalizer = |name: &str| json!({ "metadata": { "finalizers": [HOLD, name] } });
        // Another finalizer precedes that of the Go operator, and stays.
        ns.patch::<PodCliqueSet>("m", finalizer("grove.io/podcliqueset.grove.io")).await;
        for group in state.groups.keys() {
            let alone = json!({ "metadata": { "finalizers": ["grove.io/podcliquescalinggroup.grove.io"] } });
            ns.patch::<PodCliqueScalingGroup>(group, alone).await;
        }
        for clique in state.cliques.keys() {
            let alone = json!({ "metadata": { "finalizers": ["grove.io/podclique.grove.io"] } });
            ns.patch::<PodClique>(clique, alone).await;
        }
        ns.scale::<PodCliqueSet>("m", 1).await;
        ns.wait_for("one replica is left", |state| is_settled(state, 1)).await;
        ns.scale::<PodCliqueSet>("m", 2).await;
        ns.wait_for("the second replica exists again", |state| is_settled(state, 2)).await;
        ns.delete_object::<PodCliqueSet>("m").await;
        ns.wait_for("only the finalizer of another client holds the set", |state| {
            state.sets.get("m").is_some_and(|set| set.finalizers() == [HOLD]) && state.count() == 1
        })
        .await;
        release::<PodCliqueSet>(ns, "m").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    })
    .await;
}
