//! Sets, cliques, pods and namespaces come and go: no entry of them remains in the memory of a service, and its heap
//! does not grow.

use std::time::{Duration, Instant};

use e2e::metrics::{self, Samples};
use e2e::namespace_state::{TIMEOUT, is_ready};
use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, test_cluster};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::{process_memory, wait};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];
/// Metrics of maps. An entry of these maps ends with its object at the latest.
const MAPS: [&str; 3] = ["grove_state_entries{", "grove_cache_objects{", "grove_cache_index_values{"];
/// The published warnings, which end by time and number, not with their objects.
const PUBLISHED_WARNINGS: &str = "map=\"remembered_warnings\"";
/// With one arena that returns free memory to the kernel, the resident memory is close to the memory in use.
const ALLOCATOR: [&str; 3] = ["env", "MALLOC_ARENA_MAX=1", "MALLOC_TRIM_THRESHOLD_=131072"];
/// The pods of a set of size 1.
const PODS: usize = 70;
/// The size of the sets in the soak test: 420 pods.
const SOAK_SIZE: i32 = 6;
/// Every so many rounds the namespace is deleted instead of the set.
const NAMESPACE_PERIOD: usize = 5;
/// Free memory between objects in use varies, so the test compares the lowest heaps of this many rounds.
const COMPARED: usize = 5;
/// The heap after this many rounds is the reference.
const WARM_UP: usize = 10;
const MAX_GROWTH: f64 = 1.1;
/// Between two reads of the metrics.
const INTERVAL: Duration = Duration::from_millis(100);

/// The heap of each service in megabytes after each round.
type Heaps = [Vec<f64>; SERVICES.len()];

/// Takes long: some entries end only when the garbage collector and the namespace controller have deleted the objects.
#[tokio::test(flavor = "multi_thread")]
async fn no_entry_remains_in_memory_after_sets_and_namespaces_are_deleted() {
    churn("churn", 2, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak churn`"]
async fn the_heap_does_not_grow_in_many_rounds() {
    let rounds: usize = test_cluster::required_number("GROVE_SOAK_ROUNDS");
    assert!(rounds >= WARM_UP + COMPARED, "{rounds} rounds are too few to compare their heaps");
    let heaps = churn("soak-churn", rounds, SOAK_SIZE).await;
    let mut grown = Vec::new();
    for (service, heaps) in SERVICES.into_iter().zip(&heaps) {
        let (before, after) = (lowest(&heaps[WARM_UP - COMPARED..WARM_UP]), lowest(&heaps[rounds - COMPARED..]));
        println!("{service}: {before:.1} MB after round {WARM_UP}, {after:.1} MB at the end");
        if after > MAX_GROWTH * before {
            grown.push(service);
        }
    }
    assert!(grown.is_empty(), "the heaps of {grown:?} grew to more than {MAX_GROWTH} times their size");
}

fn lowest(heaps: &[f64]) -> f64 {
    heaps.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Runs the rounds on a cluster of their own. After each round no map has more entries than before the first.
async fn churn(name: &str, rounds: usize, size: i32) -> Heaps {
    let cluster = TestCluster::with_own_services(name, &[]).await;
    let client = cluster.client().await;
    let mut replicas = Vec::new();
    for service in SERVICES {
        replicas.push(ServiceReplica::take_over_with_wrapper(&cluster, service, &ALLOCATOR).await);
    }
    let before = map_entries(&cluster).await;
    let mut heaps = Heaps::default();
    let mut current: Option<Namespace> = None;
    for round in 1..=rounds {
        let started = Instant::now();
        let ns = match current.take() {
            Some(ns) => ns,
            None => Namespace::create(&client, &format!("e2e-churn-{round}")).await,
        };
        use_set(&ns, round, size).await;
        current = delete_set(ns, round % NAMESPACE_PERIOD == 0 || round == rounds).await;
        wait_for_no_other_entries(&cluster, &before).await;
        print!("round {round}, {:.1} s:", started.elapsed().as_secs_f64());
        record_heaps(&replicas, &mut heaps);
    }
    drop(replicas);
    cluster.down().await;
    heaps
}

/// Deletes the set, or the namespace with it. Returns the namespace if it stays.
async fn delete_set(ns: Namespace, with_namespace: bool) -> Option<Namespace> {
    if with_namespace {
        delete_namespace(&ns).await;
        return None;
    }
    ns.delete_object::<PodCliqueSet>("llm").await;
    ns.wait_for("no object remains", NamespaceState::is_empty).await;
    Some(ns)
}

/// Measures and prints the heap of each service.
fn record_heaps(replicas: &[ServiceReplica], heaps: &mut Heaps) {
    for ((service, replica), heaps) in SERVICES.iter().zip(replicas).zip(heaps) {
        let heap = process_memory::of(replica.pid()).expect("a running process").anonymous;
        print!(" {service} {heap:.1} MB");
        heaps.push(heap);
    }
    println!();
}

/// Creates a set, and deletes one of its cliques and some of its pods, which are recreated.
async fn use_set(ns: &Namespace, round: usize, size: i32) {
    // Five pods per replica, or fourteen.
    let set = if round % 2 == 1 {
        fixtures::three_cliques("llm", 14 * size)
    } else {
        fixtures::with_scaling_group("llm", 5 * size, "")
    };
    let pods = PODS * usize::try_from(size).expect("a positive size");
    ns.wait_until_admitted(&set).await;
    ns.create_yaml::<PodCliqueSet>(&set).await;
    let state = ns.wait_for("the set is available", |state| is_complete(state, pods)).await;
    let deleted_pods: Vec<&Pod> = state.pods.values().step_by(PODS / 2).collect();
    join_all(deleted_pods.iter().map(|pod| async move { ns.delete_object::<Pod>(&pod.name_any()).await })).await;
    let deleted_clique = state.cliques.values().next().expect("a clique");
    ns.delete_object::<PodClique>(&deleted_clique.name_any()).await;
    ns.wait_for("the set is available again", |state| {
        let is_deleted = |pod: &Pod| deleted_pods.iter().any(|deleted| deleted.uid() == pod.uid());
        is_complete(state, pods)
            && !state.pods.values().any(is_deleted)
            && state.cliques.values().all(|clique| clique.uid() != deleted_clique.uid())
    })
    .await;
}

fn is_complete(state: &NamespaceState, pods: usize) -> bool {
    state.is_available("llm")
        && state.pods.len() == pods
        && state.active_pods().filter(|pod| is_ready(pod)).count() == pods
}

async fn delete_namespace(ns: &Namespace) {
    let namespaces = Api::<KubeNamespace>::all(ns.client.clone());
    let uid = namespaces.get(&ns.name).await.expect("the namespace").uid().expect("a uid");
    ns.delete().await;
    let deleted = await_condition(namespaces, &ns.name, conditions::is_deleted(&uid));
    tokio::time::timeout(TIMEOUT, deleted).await.expect("the namespace is deleted").expect("a watch of the namespace");
}

/// The entries of the maps of all services, by service and map.
async fn map_entries(cluster: &TestCluster) -> Samples {
    let mut entries = Samples::new();
    for service in SERVICES {
        let samples = metrics::scrape(cluster, service).await;
        let is_map = |name: &str| MAPS.iter().any(|map| name.starts_with(map)) && !name.contains(PUBLISHED_WARNINGS);
        let maps = samples.into_iter().filter(|(name, _)| is_map(name));
        entries.extend(maps.map(|(name, count)| (format!("{service}: {name}"), count)));
    }
    entries
}

/// Waits until no map has more entries than before.
async fn wait_for_no_other_entries(cluster: &TestCluster, before: &Samples) {
    let mut others = Samples::new();
    let polling = wait::poll(INTERVAL, async || {
        others = metrics::increases(before, &map_entries(cluster).await);
        others.is_empty().then_some(())
    });
    let ended = tokio::time::timeout(TIMEOUT, polling).await;
    assert!(ended.is_ok(), "no object remains, but these maps still have entries of deleted objects: {others:#?}");
}
