//! The way to the API server breaks, for a while or until the server has forgotten what happened meanwhile, or it ends at a
//! server that refuses: the services live on, and nothing of what happened is lost. Each loss leads to lists, whether the
//! server remembers or not; that the 410 of one that has forgotten does so, too, is proved by the tests of the caches
//! (`after_410_within_the_watch_everything_is_listed_and_what_vanished_is_told`,
//! `a_410_to_the_watch_request_itself_leads_to_a_list_too`).

use std::sync::Arc;

use e2e::sets::three_cliques_serve as serves;
use e2e::victims::{Strikes, Victim};
use e2e::{Namespace, Plane, World, metrics, sets, taken_up};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::http;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, CustomResourceExt, ResourceExt};
use serde_json::Value;

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];

#[tokio::test(flavor = "multi_thread")]
async fn services_survive_connection_loss_and_miss_no_change() {
    let config = format!("{}/tests/it/own_cluster/kills.yaml", env!("CARGO_MANIFEST_DIR"));
    let plane = Plane::own_with("faults-connection", &["--config", &config]).await;
    let strikes = Arc::new(Strikes::default());
    let mut services = Vec::new();
    for service in SERVICES {
        services.push(Victim::take_over(&plane, service, Arc::clone(&strikes)).await);
    }
    let ns = Namespace::create(&plane.client().await, "e2e-connection").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", |world| serves(world, 1)).await;
    broken_for_a_while(&plane, &ns, &services).await;
    broken_at_the_start(&plane, &ns, &services).await;
    broken_until_all_is_forgotten(&plane, &ns, &services).await;
    forbidden_to_watch(&plane, &ns, &services[1]).await;
    undefined_at_the_start(&plane, &ns, &services).await;
    services.iter().for_each(Victim::is_well);
    drop(services);
    plane.down().await;
}

/// What was asked for meanwhile is done once the way is mended.
async fn broken_for_a_while(plane: &Plane, ns: &Namespace, services: &[Victim]) {
    for service in services {
        service.proxy().cut();
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for service in SERVICES {
        plane.until_logged(service, "cannot be reached").await;
    }
    for service in services {
        service.proxy().mend();
    }
    ns.until("two replicas serve", |world| serves(world, 2)).await;
}

/// A service that does not reach the server when it starts says so, and waits.
async fn broken_at_the_start(plane: &Plane, ns: &Namespace, services: &[Victim]) {
    for service in services {
        service.proxy().cut();
        service.kill();
    }
    ns.scale::<PodCliqueSet>("llm", 3).await;
    for service in SERVICES {
        plane.until_ready_says(service, "cannot be reached").await;
    }
    for service in services {
        service.proxy().mend();
    }
    ns.until("three replicas serve", |world| serves(world, 3)).await;
}

/// While nobody watches, things change and go; then etcd is compacted and the API server begins with an empty memory. Nobody
/// can go on from where it was: everything is listed anew. (No server can be brought to answer a watch with 410 at a given
/// moment.)
async fn broken_until_all_is_forgotten(plane: &Plane, ns: &Namespace, services: &[Victim]) {
    let lists = lists(plane).await;
    for service in services {
        service.proxy().cut();
    }
    ns.remove::<PodClique>("llm-0-decode").await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.until("the clique is gone", |world| !world.cliques.contains_key("llm-0-decode")).await;
    compact(plane).await;
    plane.kill("kube-apiserver").await;
    plane.up_without_services().await;
    for service in services {
        service.proxy().mend();
    }
    let world = ns.until("two replicas serve", |world| serves(world, 2)).await;
    assert!(world.cliques.contains_key("llm-0-decode"), "{world}");
    let after = self::lists(plane).await;
    assert!(after.iter().zip(&lists).all(|(after, before)| after > before), "lists: {lists:?}, then {after:?}");
}

/// A running watch outlives the rule that allowed it; the next one is refused. The service says what it lacks, and what
/// happened meanwhile is done once it has the rule again.
async fn forbidden_to_watch(plane: &Plane, ns: &Namespace, service: &Victim) {
    let roles = Api::<ClusterRole>::all(ns.client.clone());
    let granted = roles.get("pclq-controller").await.expect("the service's rules");
    let mut less = granted.clone();
    for rule in less.rules.iter_mut().flatten() {
        rule.verbs.retain(|verb| verb != "watch");
    }
    service.proxy().cut();
    let less = roles.replace("pclq-controller", &PostParams::default(), &less).await.expect("the rules are changed");
    taken_up::rule(&ns.client, "pclq-controller", "watch", ("", "pods"), false).await;
    service.proxy().mend();
    plane.until_logged("pclq-controller", "cannot watch resource").await;
    plane.until_logged("pclq-controller", "the account of this service lacks a rule").await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.until("the cliques are there", |world| world.cliques.len() == 9).await;
    let restored = ClusterRole { metadata: less.metadata, ..granted };
    roles.replace("pclq-controller", &PostParams::default(), &restored).await.expect("the rules are restored");
    ns.until("three replicas serve", |world| serves(world, 3)).await;
}

/// A service that starts where Grove's definitions are not installed says so, and goes on once they are.
async fn undefined_at_the_start(plane: &Plane, ns: &Namespace, services: &[Victim]) {
    ns.remove::<PodCliqueSet>("llm").await;
    ns.until("nothing is left", World::is_empty).await;
    for service in services {
        service.proxy().cut();
        service.kill();
    }
    let kinds = [PodCliqueSet::crd(), PodCliqueScalingGroup::crd(), PodClique::crd(), PodGang::crd()];
    for definition in kinds {
        taken_up::undefine(&ns.client, &definition.name_any()).await;
    }
    for service in services {
        service.proxy().mend();
    }
    for service in SERVICES {
        plane.until_logged(service, "does not serve this kind; its definition has to be installed").await;
    }
    plane.up_without_services().await;
    taken_up::kinds(plane, &["podcliquesets.grove.io", "podcliques.grove.io", "podgangs.scheduler.grove.io"]).await;
    let ns = Namespace::create(&ns.client, "e2e-connection-defined").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", |world| serves(world, 1)).await;
}

/// Complete lists so far, of each service.
async fn lists(plane: &Plane) -> Vec<f64> {
    let mut lists = Vec::new();
    for service in SERVICES {
        let samples = metrics::of(plane, service).await;
        lists.push(samples.iter().filter(|(name, _)| name.starts_with("reflector_lists_total")).map(|(_, n)| n).sum());
    }
    lists
}

/// Makes etcd forget all that is past.
async fn compact(plane: &Plane) {
    let etcd = plane.port("etcd");
    let (status, answer) = http::send(etcd, "POST", "/v3/kv/range", r#"{"key": "AA=="}"#).await.expect("etcd answers");
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let revision = answer["header"]["revision"].as_str().expect("a revision");
    let order = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
    let (status, answer) = http::send(etcd, "POST", "/v3/kv/compaction", &order).await.expect("etcd answers");
    assert_eq!(status, 200, "{answer}");
}
