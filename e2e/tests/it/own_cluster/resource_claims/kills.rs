//! Kills of both controllers right after their writes. Each step ends as in the undisturbed run, with exactly the claims that the objects need.
//! The rule about the lifetime of claims holds at each event.

use e2e::normalized;
use parking_lot::Mutex;

use super::super::compute_domains::configuration_with;
use super::super::kill_series::{Kills, kill_series};
use super::super::kills::{QUIET, kills_and_seed};
use super::*;

const SETS: [&str; 2] = ["a", "b"];
/// What a user does: for each step the replicas of the sets, and in each replica of a set the pods of the clique and the replicas of the group.
const STEPS: [&[(i32, i32)]; 3] = [&[(2, 2)], &[(3, 3), (2, 2)], &[(1, 1)]];

/// Takes long: a service is killed at each kind of write, and each step of the undisturbed run ends when nothing has changed for some seconds.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_both_controllers_leave_no_claim() {
    series(Kills::EachKind { seed: 16 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --resource-claims`"]
async fn many_kills_of_both_controllers_leave_no_claim() {
    let (count, seed) = kills_and_seed();
    series(Kills::Random { count, seed }).await;
}

async fn series(kills: Kills) {
    // Without leader election a restarted service does not wait for the lease of the killed process to expire.
    let config = configuration_with("resource-claim-kills", json!({ "leaderElection": { "enabled": false } }));
    let cluster = start_cluster("resource-claim-kills", &["--config", &config]).await;
    let undisturbed = Mutex::new(vec![]);
    let run = async |cluster: &TestCluster, namespace: &str| run(cluster, namespace, &undisturbed).await;
    kill_series(cluster, SERVICES, "e2e-claim-kills", kills, run).await;
}

/// The normalised objects after each step of the undisturbed run, which is the first one.
type EndStates = Mutex<Vec<BTreeSet<String>>>;

/// Creates sets, scales them out and in, and deletes them.
async fn run(cluster: &TestCluster, namespace: &str, undisturbed: &EndStates) {
    let fixture = Fixture::create(cluster, namespace).await;
    for name in SETS {
        fixture.ns.create_yaml::<PodCliqueSet>(&set(name)).await;
    }
    for (step, sizes) in STEPS.into_iter().enumerate() {
        for name in SETS {
            scale(&fixture, name, sizes).await;
        }
        for name in SETS {
            let state = fixture.ns.wait_for_ready_pods(name, pod_count(sizes)).await;
            let claims = fixture.wait_for_claims(name, &names_of_claims(name, sizes)).await;
            assert_allocated(&claims, state.pods_of(name), 1);
        }
        ends_like_undisturbed(&fixture, step, undisturbed).await;
    }
    for name in SETS {
        fixture.ns.delete_object::<PodCliqueSet>(name).await;
    }
    fixture.wait_until_nothing_is_left().await;
    fixture.check_lifetime().await;
}

/// Records the end state of the step in the undisturbed run, and waits for it in the others.
async fn ends_like_undisturbed(fixture: &Fixture, step: usize, undisturbed: &EndStates) {
    let recorded = undisturbed.lock().get(step).cloned();
    if let Some(expected) = recorded {
        fixture
            .ns
            .wait_for("the end state of the undisturbed run", |state| normalized::has_lines(state, &expected))
            .await;
    } else {
        fixture.ns.wait_for("all statuses and references are written", is_complete).await;
        let state = fixture.ns.wait_until_quiet(QUIET).await;
        assert!(is_complete(&state), "{state}");
        undisturbed.lock().push(normalized::lines(&state));
    }
}

fn is_complete(state: &NamespaceState) -> bool {
    let are_available = SETS.iter().all(|set| state.is_available(set));
    are_available && state.status_is_current() && state.reference_count() == state.pods.len()
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
