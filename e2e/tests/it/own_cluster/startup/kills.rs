//! Kills of both controllers while sets with a start-up order are created, scaled and deleted.

use e2e::init_containers::{InitContainers, PENDING};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::super::kill_series::{Kills, kill_series};
use super::super::kills::kills_and_seed;
use super::{all_are_ready, clique, ready, set};

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];
const SETS: [&str; 2] = ["s0", "s1"];

/// Two cliques, and a scaling group whose second replica has a scaled gang.
fn ordered(name: &str) -> String {
    let (p, d) = (clique("p", 1, PENDING, &["f"]), clique("d", 1, PENDING, &["p"]));
    let groups = ["{name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1}"];
    set(name, "Explicit", &[clique("f", 1, PENDING, &[]), p, d, clique("z", 1, PENDING, &["d"])], &groups)
}

/// The names of the objects of one kind that belong to sets.
async fn of_sets<K>(ns: &Namespace) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    poll_until(async || {
        let listed = ns.api::<K>().list(&kube::api::ListParams::default()).await.ok()?;
        Some(
            listed
                .items
                .iter()
                .filter(|object| !object.owner_references().is_empty())
                .map(ResourceExt::name_any)
                .collect(),
        )
    })
    .await
}

async fn identities(ns: &Namespace) -> [Vec<String>; 4] {
    let (accounts, secrets) = (of_sets::<ServiceAccount>(ns).await, of_sets::<Secret>(ns).await);
    [accounts, of_sets::<Role>(ns).await, of_sets::<RoleBinding>(ns).await, secrets]
}

async fn run(cluster: &TestCluster, name: &str) {
    let ns = Namespace::create(&cluster.client().await, name).await;
    let kubelets = InitContainers::start(cluster, &ns, None).await;
    create(&ns).await;
    scale(&ns).await;
    for set in SETS {
        ns.delete_object::<PodCliqueSet>(set).await;
    }
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    poll_until(async || identities(&ns).await.iter().all(Vec::is_empty).then_some(())).await;
    assert_eq!(kubelets.failures(), []);
    ns.delete().await;
}

async fn create(ns: &Namespace) {
    for set in SETS {
        ns.create_yaml::<PodCliqueSet>(&ordered(set)).await;
    }
    let is_created = |state: &NamespaceState| state.cliques.len() == 12 && all_are_ready(state);
    ns.wait_for("all pods are ready", is_created).await;
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let roles = names(["grove.io:pcs:s0", "grove.io:pcs:s1"]);
    let expected = [names(SETS), roles.clone(), roles, names(["s0-ic-sat", "s1-ic-sat"])];
    assert_eq!(identities(ns).await, expected);
}

async fn scale(ns: &Namespace) {
    ns.scale::<PodCliqueSet>("s0", 2).await;
    ns.scale::<PodClique>("s1-0-z", 3).await;
    ns.scale::<PodCliqueScalingGroup>("s1-0-g", 3).await;
    let is_scaled = |state: &NamespaceState| {
        let counts = [("s0-1-z", 1), ("s1-0-z", 3), ("s1-0-g-2-d", 1)];
        counts.iter().all(|(clique, count)| ready(state, clique) == *count) && all_are_ready(state)
    };
    ns.wait_for("the new pods are ready", is_scaled).await;
}

async fn series(kills: Kills) {
    let cluster = TestCluster::with_own_services("startup-kills", &["--config", &config()]).await;
    kill_series(cluster, SERVICES, "e2e-startup-kills", kills, run).await;
}

fn config() -> String {
    format!("{}/tests/it/own_cluster/kills.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_each_kind_of_write_leaves_no_identity() {
    series(Kills::EachKind { seed: 39 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --startup`"]
async fn many_kills_of_both_controllers_leave_no_identity() {
    let (count, seed) = kills_and_seed();
    series(Kills::Random { count, seed }).await;
}
