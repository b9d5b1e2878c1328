//! Runs the steps of a test again and again while services are killed right after their writes.

use std::sync::Arc;

use e2e::TestCluster;
use e2e::crash_injection::{CrashSchedule, CrashTarget, KillPoints};

use super::kills::{Numbers, assert_most_happened, choose_kill_points, kill_each_kind};

/// Kills that are scheduled in one run of the steps. A run may have fewer writes than the undisturbed one, so some do not happen.
const KILLS_PER_RUN: usize = 10;

/// When services are killed.
#[derive(Clone, Copy)]
pub(super) enum Kills {
    /// Once at each kind of write, in one run.
    EachKind { seed: u64 },
    /// At this many random writes, in as many runs as necessary.
    Random { count: usize, seed: u64 },
}

/// Runs the steps once without kills, and then with kills. `run` gets the cluster and the name of a namespace, which begins with
/// `namespace`. Stops the cluster at the end.
pub(super) async fn kill_series(
    cluster: TestCluster,
    services: [&'static str; 2],
    namespace: &str,
    kills: Kills,
    run: impl AsyncFn(&TestCluster, &str),
) {
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in services {
        targets.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    schedule.start(KillPoints::default());
    run(&cluster, &format!("{namespace}-none")).await;
    let run_with = async |name: &str, kill_points: KillPoints| {
        schedule.start(kill_points);
        run(&cluster, &format!("{namespace}-{name}")).await;
        println!("killed at: {:#?}", schedule.kills());
        targets.iter().for_each(CrashTarget::assert_running);
    };
    match kills {
        Kills::EachKind { seed } => {
            run_with("each-kind", kill_each_kind(seed, schedule.writes_by_kind())).await;
            assert_most_happened(&schedule);
        }
        Kills::Random { count, seed } => {
            let (writes, mut numbers) = (schedule.writes_sent(), Numbers(seed));
            let (mut killed, mut runs) = (0, 0);
            while killed < count {
                let kill_points = choose_kill_points(&mut numbers, KILLS_PER_RUN, writes);
                run_with(&runs.to_string(), KillPoints::Numbers(kill_points)).await;
                assert!(!schedule.kills().is_empty(), "no service was killed");
                killed += schedule.kills().len();
                runs += 1;
            }
        }
    }
    drop(targets);
    cluster.down().await;
}
