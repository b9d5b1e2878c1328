//! The connection to the API server breaks for a while, or until the server has compacted the missed events, or the server
//! denies requests. The services keep running and miss no change. Each broken connection leads to new lists. Tests of the
//! informers show that a 410 response leads to a list, too
//! (`a_410_in_the_watch_leads_to_a_list_and_missing_objects_are_reported_as_deleted`,
//! `a_410_to_the_watch_request_leads_to_a_list`).

use std::sync::Arc;

use e2e::crash_injection::{CrashSchedule, CrashTarget};
use e2e::fixtures::three_cliques_are_ready;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, metrics, propagation};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::http;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, CustomResourceExt, ResourceExt};
use serde_json::Value;

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "topology-controller"];

/// Takes long: five outages follow one another, each until the services report it and then recover; one of them restarts the API server.
#[tokio::test(flavor = "multi_thread")]
async fn services_survive_connection_loss_and_miss_no_change() {
    let config = format!("{}/tests/it/own_cluster/kills.yaml", env!("CARGO_MANIFEST_DIR"));
    let cluster = TestCluster::with_own_control_plane("connection-loss", &["--config", &config]).await;
    let schedule = Arc::new(CrashSchedule::default());
    let mut services = Vec::new();
    for service in SERVICES {
        services.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    let ns = Namespace::create(&cluster.client().await, "e2e-connection-loss").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", |state| three_cliques_are_ready(state, 1)).await;
    broken_for_a_while(&cluster, &ns, &services).await;
    broken_at_the_start(&cluster, &ns, &services).await;
    broken_beyond_compaction(&cluster, &ns, &services).await;
    watch_forbidden(&cluster, &ns, &services[1]).await;
    crds_missing_at_the_start(&cluster, &ns, &services).await;
    services.iter().for_each(CrashTarget::assert_running);
    drop(services);
    cluster.down().await;
}

/// The services reconcile changes of the outage after it ends.
async fn broken_for_a_while(cluster: &TestCluster, ns: &Namespace, services: &[CrashTarget]) {
    for service in services {
        service.proxy().disconnect();
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for service in SERVICES {
        cluster.wait_for_log(service, "cannot be reached").await;
    }
    for service in services {
        service.proxy().reconnect();
    }
    ns.wait_for("two replicas are ready", |state| three_cliques_are_ready(state, 2)).await;
}

/// A service that starts without a connection reports that and waits.
async fn broken_at_the_start(cluster: &TestCluster, ns: &Namespace, services: &[CrashTarget]) {
    for service in services {
        service.proxy().disconnect();
        service.kill();
    }
    ns.scale::<PodCliqueSet>("llm", 3).await;
    for service in SERVICES {
        cluster.wait_for_readiness(service, "cannot be reached").await;
    }
    for service in services {
        service.proxy().reconnect();
    }
    ns.wait_for("three replicas are ready", |state| three_cliques_are_ready(state, 3)).await;
}

/// During the outage objects change and are deleted; then etcd is compacted and the API server restarts with an empty watch
/// cache. No watch can resume, so the services list everything again. (A test cannot make the API server respond with 410 at
/// a given moment.)
async fn broken_beyond_compaction(cluster: &TestCluster, ns: &Namespace, services: &[CrashTarget]) {
    let before = list_counts(cluster).await;
    for service in services {
        service.proxy().disconnect();
    }
    ns.delete_object::<PodClique>("llm-0-decode").await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.wait_for("the clique is deleted", |state| !state.cliques.contains_key("llm-0-decode")).await;
    compact(cluster).await;
    cluster.kill("kube-apiserver").await;
    cluster.up_without_services().await;
    for service in services {
        service.proxy().reconnect();
    }
    let state = ns.wait_for("two replicas are ready", |state| three_cliques_are_ready(state, 2)).await;
    assert!(state.cliques.contains_key("llm-0-decode"), "{state}");
    let after = list_counts(cluster).await;
    assert!(
        after.iter().zip(&before).all(|(after, before)| after > before),
        "lists before {before:?}, after {after:?}"
    );
}

/// A running watch outlives the permission; the next watch request is forbidden. The service reports the missing permission,
/// and reconciles the missed changes when it has the permission again.
async fn watch_forbidden(cluster: &TestCluster, ns: &Namespace, service: &CrashTarget) {
    let roles = Api::<ClusterRole>::all(ns.client.clone());
    let granted = roles.get("pclq-controller").await.expect("the ClusterRole");
    let mut restricted = granted.clone();
    for rule in restricted.rules.iter_mut().flatten() {
        rule.verbs.retain(|verb| verb != "watch");
    }
    service.proxy().disconnect();
    let restricted = roles
        .replace("pclq-controller", &PostParams::default(), &restricted)
        .await
        .expect("the ClusterRole is replaced");
    propagation::wait_for_permission(&ns.client, "pclq-controller", "watch", ("", "pods"), false).await;
    service.proxy().reconnect();
    cluster.wait_for_log("pclq-controller", "cannot watch resource").await;
    cluster.wait_for_log("pclq-controller", "the account of this service lacks a rule").await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.wait_for("the cliques of three replicas exist", |state| state.cliques.len() == 9).await;
    let restored = ClusterRole { metadata: restricted.metadata, ..granted };
    roles.replace("pclq-controller", &PostParams::default(), &restored).await.expect("the ClusterRole is restored");
    ns.wait_for("three replicas are ready", |state| three_cliques_are_ready(state, 3)).await;
}

/// A service that starts before Grove's CRDs are installed reports that, and continues once they are.
async fn crds_missing_at_the_start(cluster: &TestCluster, ns: &Namespace, services: &[CrashTarget]) {
    ns.delete_object::<PodCliqueSet>("llm").await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    for service in services {
        service.proxy().disconnect();
        service.kill();
    }
    let crds = [PodCliqueSet::crd(), PodCliqueScalingGroup::crd(), PodClique::crd(), PodGang::crd()];
    for crd in crds {
        propagation::delete_crd(&ns.client, &crd.name_any()).await;
    }
    for service in services {
        service.proxy().reconnect();
    }
    for service in SERVICES {
        cluster.wait_for_log(service, "does not serve this kind; its definition has to be installed").await;
    }
    cluster.up_without_services().await;
    propagation::wait_for_kinds(
        cluster,
        &["podcliquesets.grove.io", "podcliques.grove.io", "podgangs.scheduler.grove.io"],
    )
    .await;
    let ns = Namespace::create(&ns.client, "e2e-connection-loss-crds").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", |state| three_cliques_are_ready(state, 1)).await;
}

/// The number of lists so far, of each service.
async fn list_counts(cluster: &TestCluster) -> Vec<f64> {
    let mut counts = Vec::new();
    for service in SERVICES {
        let samples = metrics::scrape(cluster, service).await;
        counts.push(samples.iter().filter(|(name, _)| name.starts_with("reflector_lists_total")).map(|(_, n)| n).sum());
    }
    counts
}

/// Compacts the history of etcd.
async fn compact(cluster: &TestCluster) {
    let etcd = cluster.port("etcd");
    let (status, response) =
        http::send(etcd, "POST", "/v3/kv/range", r#"{"key": "AA=="}"#).await.expect("a response of etcd");
    assert_eq!(status, 200, "{response}");
    let response: Value = serde_json::from_str(&response).expect("JSON");
    let revision = response["header"]["revision"].as_str().expect("a revision");
    let request = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
    let (status, response) = http::send(etcd, "POST", "/v3/kv/compaction", &request).await.expect("a response of etcd");
    assert_eq!(status, 200, "{response}");
}
