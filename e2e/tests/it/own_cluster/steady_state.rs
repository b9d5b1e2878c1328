//! A cluster at rest is left alone: by the audit log, our accounts write nothing.

use std::time::Duration;

use e2e::{Namespace, Plane, World, audit, sets};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;

const SETS: usize = 100;
/// One set in so many has a scaling group and autoscalers, about which stock controllers write all the time.
const GROUPED: usize = 10;
/// The promise is about a minute of rest, so the test watches for one.
const WINDOW: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_settled_sets_cause_no_write_for_a_minute() {
    let plane = Plane::own("steady").await;
    let ns = &Namespace::create(&plane.client().await, "e2e-steady").await;
    let names: Vec<String> = (0..SETS).map(|index| format!("s{index}")).collect();
    join_all(names.iter().enumerate().map(|(at, name)| {
        let grouped = at % GROUPED == 0;
        let yaml = if grouped { sets::grouped(name, 1, "") } else { sets::three_cliques(name, 1) };
        async move { ns.create_yaml::<PodCliqueSet>(&yaml).await }
    }))
    .await;
    let at_rest = |world: &World| {
        let wanted: usize = world.cliques.values().filter_map(|c| usize::try_from(c.spec.replicas).ok()).sum();
        names.iter().all(|name| world.is_available(name))
            && world.autoscalers.len() == SETS / GROUPED * 2
            && world.references() == wanted
            && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == wanted
            && world.gangs.values().all(running)
    };
    ns.until("all sets are available", at_rest).await;
    let before = audit::writes_since(plane.dir(), 0);
    for account in ["(pcs-controller)", "(pclq-controller)", "(webhook-server)"] {
        assert!(before.iter().any(|write| write.ends_with(account)), "the audit log knows no write of {account}");
    }
    a_minute_of_rest(&plane).await;
    plane.down().await;
}

fn running(gang: &grove_api_types::scheduler_v1alpha1::PodGang) -> bool {
    let phase = gang.status.as_ref().map(|status| status.phase);
    phase == Some(grove_api_types::scheduler_v1alpha1::PodGangPhase::Running)
}

/// Waits until the services wrote nothing for a minute. What they have still to tell comes before, events in the background.
async fn a_minute_of_rest(plane: &Plane) {
    let mut last = Vec::new();
    let waiting = async {
        loop {
            let mark = audit::mark(plane.dir());
            let _ = tokio::time::timeout(WINDOW, std::future::pending::<()>()).await;
            last = audit::writes_since(plane.dir(), mark);
            if last.is_empty() {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(e2e::world::LIMIT, waiting).await;
    waited.unwrap_or_else(|_| panic!("the services do not come to rest; in a minute they wrote {last:#?}"));
}
