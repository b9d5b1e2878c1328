//! The cluster is restored from an older backup while the services run: their caches contain changes that the cluster does
//! not have.

use e2e::{Namespace, NamespaceState, TestCluster, fixtures, namespace_state::is_ready};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use tokio::process::Command;

/// Components of Kubernetes that cache state. The documentation of Kubernetes recommends a restart of them after a restore.
const COMPONENTS: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];

/// Takes long: all components of the control plane start twice, and begin with the objects of a backup.
#[tokio::test(flavor = "multi_thread")]
async fn services_reconcile_a_cluster_restored_from_a_backup() {
    let cluster = TestCluster::with_own_control_plane("restore", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-restore").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("early", 1)).await;
    ns.wait_for("both sets are ready", |state| are_settled(state, &[("llm", 1), ("early", 1)])).await;
    let deleted = Namespace::create(&ns.client, "e2e-restore-deleted").await;
    deleted.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    deleted.wait_for("the set is ready", |state| are_settled(state, &[("llm", 1)])).await;
    back_up(&cluster).await;

    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("late", 2)).await;
    ns.delete_object::<PodCliqueSet>("early").await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.delete_object::<PodClique>("llm-0-decode").await;
    ns.wait_for("the changed sets are ready", |state| are_settled(state, &[("llm", 3), ("late", 2)])).await;
    begin_deletion(&deleted).await;
    restore(&cluster).await;

    // New watches: the previous ones cached the lost changes, too.
    let ns = Namespace::attach(&ns.client, &ns.name);
    ns.wait_for("the sets of the backup are ready", |state| are_settled(state, &[("llm", 1), ("early", 1)])).await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.delete_object::<PodClique>("llm-0-decode").await;
    ns.delete_object::<PodCliqueSet>("early").await;
    let has_only_llm = |state: &NamespaceState| state.services.keys().all(|name| name.starts_with("llm-"));
    ns.wait_for("two replicas are ready, and no other objects exist", |state| {
        are_settled(state, &[("llm", 2)]) && has_only_llm(state)
    })
    .await;
    let restored = Namespace::attach(&ns.client, &deleted.name);
    restored.scale::<PodCliqueSet>("llm", 2).await;
    restored.wait_for("pods are created again", |state| are_settled(state, &[("llm", 2)])).await;
    cluster.down().await;
}

/// Deletes a namespace that the finalizer of a pod keeps terminating, until pclq-controller has observed it.
async fn begin_deletion(ns: &Namespace) {
    let state = ns.wait_for("pods exist", |state| !state.pods.is_empty()).await;
    let held = state.pods.values().next().expect("a pod");
    ns.add_finalizers([held]).await;
    ns.delete().await;
    ns.wait_for("a clique reports the terminating namespace", |state| {
        let mut statuses = state.cliques.values().filter_map(|clique| clique.status.as_ref());
        statuses.any(|status| status.conditions.iter().any(|condition| condition.reason == "NamespaceTerminating"))
    })
    .await;
}

/// Whether exactly these sets exist, and all their replicas are ready.
fn are_settled(state: &NamespaceState, sets: &[(&str, usize)]) -> bool {
    let replicas: usize = sets.iter().map(|(_, replicas)| replicas).sum();
    sets.iter().all(|(set, _)| state.is_available(set))
        && state.sets.len() == sets.len()
        && state.cliques.len() == replicas * 3
        && state.pods.len() == replicas * 5
        && state.active_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
}

async fn back_up(cluster: &TestCluster) {
    cluster.kill("etcd").await;
    copy(cluster, "etcd", "backup").await;
    cluster.up_without_services().await;
}

async fn restore(cluster: &TestCluster) {
    for component in COMPONENTS.into_iter().chain(["kube-apiserver", "etcd"]) {
        cluster.kill(component).await;
    }
    std::fs::remove_dir_all(cluster.dir().join("etcd")).expect("the data of etcd is deleted");
    copy(cluster, "backup", "etcd").await;
    cluster.up_without_services().await;
}

/// Copies a folder within the cluster's folder.
async fn copy(cluster: &TestCluster, from: &str, to: &str) {
    let [from, to] = [from, to].map(|name| cluster.dir().join(name));
    let status = Command::new("cp").arg("--archive").args([from, to]).status().await.expect("cp runs");
    assert!(status.success(), "the folder is copied");
}
