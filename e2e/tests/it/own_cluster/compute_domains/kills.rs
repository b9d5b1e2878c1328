//! Kills of both controllers right after their writes. Once all services run again, no domain exists without its set, and nothing is
//! terminating.

use super::super::kill_series::{Kills, kill_series};
use super::super::kills::kills_and_seed;
use super::*;

const SETS: [&str; 2] = ["a", "b"];

/// Takes long: a service is killed at each kind of write, and the pods of a domain take seconds to end.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_controllers_leave_no_domain() {
    series(Kills::EachKind { seed: 11 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --compute-domains`"]
async fn many_kills_of_both_controllers_leave_no_domain() {
    let (count, seed) = kills_and_seed();
    series(Kills::Random { count, seed }).await;
}

async fn series(kills: Kills) {
    // Without leader election a restarted service does not wait for the lease of the killed process to expire.
    let fields = json!({ "network": { "autoMNNVLEnabled": true }, "leaderElection": { "enabled": false } });
    let config = configuration_with("compute-domain-kills", fields);
    let flags = ["--config", &config, "--crd", CRD_FILE, "--nodes", NODES];
    let cluster = TestCluster::with_own_services("compute-domain-kills", &flags).await;
    install_channels(&cluster.client().await).await;
    kill_series(cluster, [SERVICE, "pcs-controller"], "e2e-domain-kills", kills, run).await;
}

/// Creates sets, scales them out and in, and deletes them.
async fn run(cluster: &TestCluster, namespace: &str) {
    let fixture = Fixture::create(cluster, namespace).await;
    for name in SETS {
        fixture.ns.create_yaml::<PodCliqueSet>(&set(name, 1)).await;
    }
    for (replicas, domains) in [(1, vec!["a-0", "b-0"]), (2, vec!["a-0", "a-1", "b-0", "b-1"]), (1, vec!["a-0", "b-0"])]
    {
        scale_to(&fixture, replicas, &domains).await;
    }
    for name in SETS {
        fixture.ns.delete_object::<PodCliqueSet>(name).await;
    }
    fixture.wait_for_domains(&[]).await;
    fixture.ns.wait_for("nothing is left", NamespaceState::is_empty).await;
    fixture.check_history().await;
}

async fn scale_to(fixture: &Fixture, replicas: i32, domains: &[&str]) {
    for name in SETS {
        fixture.ns.scale::<PodCliqueSet>(name, replicas).await;
    }
    for name in SETS {
        fixture.wait_for_ready_replicas(name, replicas).await;
    }
    let domains = fixture.wait_for_domains(domains).await;
    assert!(domains.iter().all(|domain| !is_terminating(domain)), "{domains:?}");
}
