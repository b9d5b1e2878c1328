//! Kills of both controllers right after their writes. Each step ends with exactly the claims that the objects need, and the rule about the
//! lifetime of claims holds at each event.

use super::super::compute_domains::configuration_with;
use super::super::kill_series::{KILLS_PER_RUN, kill_series};
use super::super::kills::kills_and_seed;
use super::*;

const SETS: [&str; 2] = ["a", "b"];
/// What a user does: for each step the replicas of the sets, and in each replica of a set the pods of the clique and the replicas of the group.
const STEPS: [&[(i32, i32)]; 3] = [&[(2, 2)], &[(3, 3), (2, 2)], &[(1, 1)]];

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_controllers_leave_no_claim() {
    series(KILLS_PER_RUN / 2, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --resource-claims`"]
async fn many_kills_of_both_controllers_leave_no_claim() {
    let (kills, seed) = kills_and_seed();
    series(kills, seed).await;
}

async fn series(kills: usize, seed: u64) {
    // Without leader election a restarted service does not wait for the lease of the killed process to expire.
    let config = configuration_with("resource-claim-kills", json!({ "leaderElection": { "enabled": false } }));
    let cluster = start_cluster("resource-claim-kills", &["--config", &config]).await;
    kill_series(cluster, SERVICES, "e2e-claim-kills", (kills, seed), run).await;
}

/// Creates sets, scales them out and in, and deletes them.
async fn run(cluster: &TestCluster, namespace: &str) {
    let fixture = Fixture::create(cluster, namespace).await;
    for name in SETS {
        fixture.ns.create_yaml::<PodCliqueSet>(&set(name)).await;
    }
    for sizes in STEPS {
        for name in SETS {
            scale(&fixture, name, sizes).await;
        }
        for name in SETS {
            let pods = sizes.iter().map(|(pods, groups)| pods + groups).sum::<i32>();
            let state = fixture.ns.wait_for_ready_pods(name, usize::try_from(pods).expect("a small number")).await;
            let claims = fixture.wait_for_claims(name, &names_of_claims(name, sizes)).await;
            assert_allocated(&claims, state.pods_of(name), 1);
        }
    }
    for name in SETS {
        fixture.ns.delete_object::<PodCliqueSet>(name).await;
    }
    fixture.wait_until_nothing_is_left().await;
    fixture.check_lifetime().await;
}

async fn scale(fixture: &Fixture, set: &str, sizes: &[(i32, i32)]) {
    let ns = &fixture.ns;
    ns.scale::<PodCliqueSet>(set, i32::try_from(sizes.len()).expect("a small number")).await;
    let (clique, group) = (format!("{set}-0-front"), format!("{set}-0-g"));
    ns.wait_for("the first replica exists", |state| {
        state.cliques.contains_key(&clique) && state.groups.contains_key(&group)
    })
    .await;
    let (pods, groups) = sizes[0];
    ns.scale::<PodClique>(&clique, pods).await;
    ns.scale::<PodCliqueScalingGroup>(&group, groups).await;
}
