//! Settled sets cause no writes: the audit log contains none of the services' `ServiceAccount`s.

use std::time::Duration;

use e2e::native_gangs::all_are_bound;
use e2e::{Namespace, NamespaceState, TestCluster, audit, fixtures};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;

const SETS: usize = 100;
/// One set in this many has a scaling group and autoscalers; Kubernetes' autoscaler writes their status all the time.
const GROUPED: usize = 10;
/// Gangs with `PodGroup`s, of one pod each.
const NATIVE_GANGS: usize = 200;
/// Grove promises no writes in a settled minute, so the test watches for one.
const WINDOW: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_settled_sets_cause_no_write_for_a_minute() {
    let cluster = TestCluster::start_own("steady-state").await;
    let ns = &Namespace::create(&cluster.client().await, "e2e-steady-state").await;
    let names: Vec<String> = (0..SETS).map(|index| format!("s{index}")).collect();
    join_all(names.iter().enumerate().map(|(at, name)| {
        let grouped = at % GROUPED == 0;
        let yaml = if grouped { fixtures::with_scaling_group(name, 1, "") } else { fixtures::three_cliques(name, 1) };
        async move { ns.create_yaml::<PodCliqueSet>(&yaml).await }
    }))
    .await;
    let is_settled = |state: &NamespaceState| {
        let desired: usize = state.cliques.values().filter_map(|c| usize::try_from(c.spec.replicas).ok()).sum();
        names.iter().all(|name| state.is_available(name))
            && state.autoscalers.len() == SETS / GROUPED * 2
            && state.reference_count() == desired
            && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == desired
            && state.gangs.values().all(is_running)
    };
    ns.wait_for("all sets are available", is_settled).await;
    writes_end(cluster, &["(pcs-controller)", "(pclq-controller)", "(webhook-server)"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_settled_native_gangs_cause_no_write_for_a_minute() {
    let cluster = TestCluster::start_own_with("native-steady-state", &["--native-gangs"]).await;
    let ns = &Namespace::create(&cluster.client().await, "e2e-native-steady-state").await;
    let set = format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm}}
spec:
  replicas: {NATIVE_GANGS}
  template:
    cliques:
    - name: w
      spec:
        roleName: w
        replicas: 1
        minAvailable: 1
        podSpec: {{containers: [{{name: main, image: registry.k8s.io/pause:3.10}}]}}
"
    );
    ns.create_yaml::<PodCliqueSet>(&set).await;
    let is_settled = |state: &NamespaceState| {
        let counts = [state.gangs.len(), state.active_pods().count(), state.reference_count()];
        counts == [NATIVE_GANGS; 3]
            && state.is_available("llm")
            && state.status_is_current()
            && state.active_pods().all(e2e::namespace_state::is_ready)
            && all_are_bound(state)
    };
    ns.wait_for("all gangs are bound and their statuses are current", is_settled).await;
    writes_end(cluster, &["(pcs-controller)", "(pclq-controller)", "(topology-controller)"]).await;
}

fn is_running(gang: &grove_api_types::scheduler_v1alpha1::PodGang) -> bool {
    let phase = gang.status.as_ref().map(|status| status.phase);
    phase == Some(grove_api_types::scheduler_v1alpha1::PodGangPhase::Running)
}

/// Waits until the services stop writing, and then stops the cluster. Each of the accounts has written before.
async fn writes_end(cluster: TestCluster, accounts: &[&str]) {
    let before = audit::writes_since(cluster.dir(), 0);
    for account in accounts {
        assert!(before.iter().any(|write| write.ends_with(account)), "the audit log has no write of {account}");
    }
    wait_for_quiet_minute(&cluster).await;
    cluster.down().await;
}

/// Waits for a minute without writes. Outstanding status writes and asynchronous events come before it.
async fn wait_for_quiet_minute(cluster: &TestCluster) {
    let mut last = Vec::new();
    let waiting = async {
        loop {
            last = audit::writes_during(cluster.dir(), WINDOW).await;
            if last.is_empty() {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(e2e::namespace_state::TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("the services do not stop writing; the writes of the last minute: {last:#?}"));
}
