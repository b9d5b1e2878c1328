//! Kills of both controllers right after their writes. Once all services run again, no domain exists without its set, and nothing is
//! terminating.

use std::sync::Arc;

use e2e::crash_injection::{CrashSchedule, CrashTarget};

use super::super::kills::{Numbers, choose_kill_points, kills_and_seed};
use super::*;

const SETS: [&str; 2] = ["a", "b"];
/// Kills that are scheduled in one run of the steps. A run may have fewer writes than the undisturbed one, so some do not happen.
const KILLS_PER_RUN: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_controllers_leave_no_domain() {
    series(KILLS_PER_RUN / 2, 11).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --compute-domains`"]
async fn many_kills_of_both_controllers_leave_no_domain() {
    let (kills, seed) = kills_and_seed();
    series(kills, seed).await;
}

async fn series(kills: usize, seed: u64) {
    // Without leader election a restarted service does not wait for the lease of the killed process to expire.
    let fields = json!({ "network": { "autoMNNVLEnabled": true }, "leaderElection": { "enabled": false } });
    let config = configuration_with("compute-domain-kills", fields);
    let flags = ["--config", &config, "--crd", CRD_FILE, "--nodes", NODES];
    let cluster = TestCluster::start_own_with("compute-domain-kills", &flags).await;
    install_channels(&cluster.client().await).await;
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in [SERVICE, "pcs-controller"] {
        targets.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    schedule.start([]);
    run(&cluster, "e2e-domain-kills-none").await;
    let writes = schedule.writes_sent();
    let mut numbers = Numbers(seed);
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        schedule.start(choose_kill_points(&mut numbers, KILLS_PER_RUN, writes));
        run(&cluster, &format!("e2e-domain-kills-{runs}")).await;
        let killed_at = schedule.kills();
        println!("seed {seed}, {writes} writes, killed at: {killed_at:#?}");
        assert!(!killed_at.is_empty(), "no service was killed");
        killed += killed_at.len();
        runs += 1;
        targets.iter().for_each(CrashTarget::assert_running);
    }
    drop(targets);
    cluster.down().await;
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
