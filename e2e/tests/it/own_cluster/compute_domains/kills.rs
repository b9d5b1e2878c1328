//! Kills of both controllers right after their writes. Once all services run again, no domain exists without its set, and nothing is
//! terminating.

use std::sync::Arc;

use e2e::crash_injection::{CrashSchedule, CrashTarget};

use super::super::kills::Numbers;
use super::*;

const SETS: [&str; 2] = ["a", "b"];
const KILLS: usize = 10;
const SEED: u64 = 11;

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_controllers_leave_no_domain() {
    // Without leader election a restarted service does not wait for the lease of the killed process to expire.
    let config = json!({ "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
        "network": { "autoMNNVLEnabled": true }, "leaderElection": { "enabled": false } });
    let file = TestCluster::shared().dir().join("compute-domain-kills.yaml");
    std::fs::write(&file, config.to_string()).expect("the configuration is written");
    let flags = ["--config", &file.display().to_string(), "--crd", CRD_FILE, "--nodes", NODES];
    let cluster = TestCluster::start_own_with("compute-domain-kills", &flags).await;
    install_channels(&cluster.client().await).await;
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in [SERVICE, "pcs-controller"] {
        targets.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    schedule.start([]);
    run(&cluster, "e2e-domain-kills-none").await;
    let writes = u64::try_from(schedule.writes_sent()).expect("a small number");
    let points: BTreeSet<_> = Numbers(SEED).map(|number| number % writes + 1).take(KILLS).collect();
    schedule.start(points.iter().map(|point| usize::try_from(*point).expect("a small number")));
    run(&cluster, "e2e-domain-kills").await;
    let kills = schedule.kills();
    println!("seed {SEED}, {writes} writes, killed at: {kills:#?}");
    assert!(kills.len() >= KILLS / 2, "{kills:?}");
    targets.iter().for_each(CrashTarget::assert_running);
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
        for name in SETS {
            fixture.ns.scale::<PodCliqueSet>(name, replicas).await;
        }
        for name in SETS {
            fixture.wait_for_ready_pods(name, 3 * usize::try_from(replicas).expect("a small number")).await;
        }
        let domains = fixture.wait_for_domains(&domains).await;
        assert!(domains.iter().all(|domain| domain.metadata.deletion_timestamp.is_none()), "{domains:?}");
    }
    for name in SETS {
        fixture.ns.delete_object::<PodCliqueSet>(name).await;
    }
    fixture.wait_for_domains(&[]).await;
    fixture.ns.wait_for("nothing is left", NamespaceState::is_empty).await;
    fixture.check_history().await;
}
