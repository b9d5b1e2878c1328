//! The cluster is restored from a backup while the services live on: what they saw after it was made never happened.

use e2e::{Namespace, Plane, World, sets, world::is_ready};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use tokio::process::Command;

/// Whoever keeps what it saw; Kubernetes' own parts are started anew after a restore, as its manual says.
const STOCK: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];

#[tokio::test(flavor = "multi_thread")]
async fn services_reconcile_a_cluster_restored_from_a_backup() {
    let plane = Plane::own("faults-set-back").await;
    let ns = Namespace::create(&plane.client().await, "e2e-set-back").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("early", 1)).await;
    ns.until("both serve", |world| serves(world, &[("llm", 1), ("early", 1)])).await;
    back_up(&plane).await;

    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("late", 2)).await;
    ns.remove::<PodCliqueSet>("early").await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.remove::<PodClique>("llm-0-decode").await;
    ns.until("others serve", |world| serves(world, &[("llm", 3), ("late", 2)])).await;
    restore(&plane).await;

    // A fresh look: these watches, too, saw what never happened.
    let ns = Namespace::found(&ns.client, &ns.name);
    ns.until("it is as it was", |world| serves(world, &[("llm", 1), ("early", 1)])).await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.remove::<PodClique>("llm-0-decode").await;
    ns.remove::<PodCliqueSet>("early").await;
    let has_only_llm = |world: &World| world.services.keys().all(|name| name.starts_with("llm-"));
    ns.until("two replicas serve, and nothing else", |world| serves(world, &[("llm", 2)]) && has_only_llm(world)).await;
    plane.down().await;
}

/// Whether these sets serve with so many replicas, and there is nothing else.
fn serves(world: &World, sets: &[(&str, usize)]) -> bool {
    let replicas: usize = sets.iter().map(|(_, replicas)| replicas).sum();
    sets.iter().all(|(set, _)| world.is_available(set))
        && world.sets.len() == sets.len()
        && world.cliques.len() == replicas * 3
        && world.pods.len() == replicas * 5
        && world.live_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
}

async fn back_up(plane: &Plane) {
    plane.kill("etcd").await;
    copy(plane, "etcd", "backup").await;
    plane.up_without_services().await;
}

async fn restore(plane: &Plane) {
    for part in STOCK.into_iter().chain(["kube-apiserver", "etcd"]) {
        plane.kill(part).await;
    }
    std::fs::remove_dir_all(plane.dir().join("etcd")).expect("what there was goes");
    copy(plane, "backup", "etcd").await;
    plane.up_without_services().await;
}

/// Copies a folder of the plane.
async fn copy(plane: &Plane, from: &str, to: &str) {
    let [from, to] = [from, to].map(|name| plane.dir().join(name));
    let status = Command::new("cp").arg("--archive").args([from, to]).status().await.expect("cp runs");
    assert!(status.success(), "the folder is copied");
}
