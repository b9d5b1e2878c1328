//! Runs the steps of a test again and again while services are killed right after their writes.

use std::sync::Arc;

use e2e::TestCluster;
use e2e::crash_injection::{CrashSchedule, CrashTarget};

use super::kills::{Numbers, choose_kill_points};

/// Kills that are scheduled in one run of the steps. A run may have fewer writes than the undisturbed one, so some do not happen.
pub(super) const KILLS_PER_RUN: usize = 10;

/// Runs the steps once without kills, and then until this many kills have happened. `run` gets the cluster and the name of a namespace, which
/// begins with `namespace`. Stops the cluster at the end.
pub(super) async fn kill_series(
    cluster: TestCluster,
    services: [&'static str; 2],
    namespace: &str,
    (kills, seed): (usize, u64),
    run: impl AsyncFn(&TestCluster, &str),
) {
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in services {
        targets.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    schedule.start([]);
    run(&cluster, &format!("{namespace}-none")).await;
    let writes = schedule.writes_sent();
    let mut numbers = Numbers(seed);
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        schedule.start(choose_kill_points(&mut numbers, KILLS_PER_RUN, writes));
        run(&cluster, &format!("{namespace}-{runs}")).await;
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
