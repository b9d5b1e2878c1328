//! Settled sets cause no writes: the audit log contains none of the services' `ServiceAccount`s.

use std::time::Duration;

use e2e::native_gangs::all_are_bound;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, test_cluster};
use futures::future::join_all;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangPhase, TopologyConstraint};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::referring_sets::{self, CONFIGURATION, TOPOLOGY, clique, constraint};

const SETS: usize = 20;
/// One set in this many has a scaling group and autoscalers; Kubernetes' autoscaler writes their status all the time.
const GROUPED: usize = 5;
/// Sets with one gang each. A gang has a `PodGroup`, eight pods, and constraints at three levels.
const NATIVE_GANGS: usize = 12;
const PODS_PER_GANG: usize = 8;
/// Grove promises no writes in a settled minute, so the test watches for one.
const WINDOW: Duration = Duration::from_mins(1);

/// Takes long: the minute without a write is the test.
#[tokio::test(flavor = "multi_thread")]
async fn settled_sets_cause_no_write_for_a_minute() {
    sets_settle("steady-state", SETS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak steady-state`"]
async fn many_settled_sets_cause_no_write_for_a_minute() {
    sets_settle("soak-steady-state-sets", test_cluster::required_number("GROVE_SOAK_SETS")).await;
}

/// Creates this number of sets, waits until they are available, and then for a minute without writes.
async fn sets_settle(name: &str, sets: usize) {
    let cluster = TestCluster::with_own_services(name, &[]).await;
    let ns = &Namespace::create(&cluster.client().await, &format!("e2e-{name}")).await;
    let names: Vec<String> = (0..sets).map(|index| format!("s{index}")).collect();
    join_all(names.iter().enumerate().map(|(at, name)| {
        let grouped = at % GROUPED == 0;
        let yaml = if grouped { fixtures::with_scaling_group(name, 1, "") } else { fixtures::three_cliques(name, 1) };
        async move { ns.create_yaml::<PodCliqueSet>(&yaml).await }
    }))
    .await;
    let is_settled = |state: &NamespaceState| {
        let desired: usize = state.cliques.values().filter_map(|c| usize::try_from(c.spec.replicas).ok()).sum();
        names.iter().all(|name| state.is_available(name))
            && state.autoscalers.len() == sets.div_ceil(GROUPED) * 2
            && state.reference_count() == desired
            && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == desired
            && state.gangs.values().all(is_running)
    };
    ns.wait_for("all sets are available", is_settled).await;
    writes_end(cluster, &["(pcs-controller)", "(pclq-controller)", "(webhook-server)"]).await;
}

/// Takes long: the minute without a write is the test.
#[tokio::test(flavor = "multi_thread")]
async fn settled_native_gangs_cause_no_write_for_a_minute() {
    native_gangs_settle("native-steady-state", NATIVE_GANGS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak steady-state`"]
async fn many_settled_native_gangs_cause_no_write_for_a_minute() {
    native_gangs_settle("soak-steady-state", test_cluster::required_number("GROVE_SOAK_GANGS")).await;
}

/// Creates this number of sets, waits until their gangs run, and then for a minute without writes.
async fn native_gangs_settle(name: &str, gangs: usize) {
    let nodes = (gangs * PODS_PER_GANG).div_ceil(referring_sets::PODS_PER_NODE).to_string();
    let flags = ["--native-gangs", "--nodes", &nodes, "--config", CONFIGURATION];
    let cluster = TestCluster::with_own_services(name, &flags).await;
    let client = cluster.client().await;
    let namespaces = referring_sets::create_sets(&client, gangs, &constrained_template()).await;
    join_all(namespaces.iter().map(|ns| async move {
        let state = ns.wait_for("all gangs are bound and their statuses are current", is_bound).await;
        let constrained = state.gangs.values().filter(|gang| has_three_levels(gang)).count();
        assert_eq!(constrained, state.sets.len(), "the gangs have constraints at three levels");
    }))
    .await;
    referring_sets::wait_until_counted(&client, gangs).await;
    referring_sets::assert_few_status_writes(&cluster);
    writes_end(cluster, &["(pcs-controller)", "(pclq-controller)", "(topology-controller)"]).await;
}

/// A gang of two replicas of a scaling group. The gang is packed by zone, the replicas by rack, and the cliques by host.
fn constrained_template() -> Value {
    let cliques = ["prefill", "decode"].map(|name| {
        let mut clique = clique(name, 2);
        clique["topologyConstraint"] = constraint("host");
        clique
    });
    let group = json!({ "name": "g", "cliqueNames": ["prefill", "decode"], "replicas": 2, "minAvailable": 2,
        "topologyConstraint": constraint("rack") });
    json!({ "topologyConstraint": constraint("zone"), "cliques": cliques, "podCliqueScalingGroups": [group] })
}

/// Whether all pods of all sets are bound, and no write of a status is outstanding.
fn is_bound(state: &NamespaceState) -> bool {
    let [sets, gangs] = [state.sets.len(), state.gangs.len()];
    let counts = [state.active_pods().count(), state.reference_count()];
    gangs == sets
        && counts == [sets * PODS_PER_GANG; 2]
        && state.sets.keys().all(|name| state.is_available(name))
        && state.status_is_current()
        && state.active_pods().all(e2e::namespace_state::is_ready)
        && all_are_bound(state)
}

/// Whether the gang, each replica of its scaling group and each of its cliques have a required key.
fn has_three_levels(gang: &PodGang) -> bool {
    let required = |constraint: &Option<TopologyConstraint>| {
        constraint.as_ref().and_then(|constraint| constraint.pack_constraint.as_ref()?.required.clone())
    };
    let of_replicas: Vec<_> =
        gang.spec.topology_constraint_group_configs.iter().map(|group| required(&group.topology_constraint)).collect();
    let of_cliques: Vec<_> = gang.spec.podgroups.iter().map(|group| required(&group.topology_constraint)).collect();
    let key = |key: &str| Some(key.to_owned());
    gang.annotations().get("grove.io/topology-name").is_some_and(|name| name == TOPOLOGY)
        && required(&gang.spec.topology_constraint) == key("topology.kubernetes.io/zone")
        && of_replicas == vec![key("topology.grove.io/rack"); 2]
        && of_cliques == vec![key("kubernetes.io/hostname"); 4]
}

fn is_running(gang: &PodGang) -> bool {
    let phase = gang.status.as_ref().map(|status| status.phase);
    phase == Some(PodGangPhase::Running)
}

/// Waits until the services stop writing, and then stops the cluster. Each of the accounts has written before.
async fn writes_end(cluster: TestCluster, accounts: &[&str]) {
    let before = cluster.audit_log().writes();
    for account in accounts {
        assert!(before.iter().any(|write| write.ends_with(account)), "the audit log has no write of {account}");
    }
    wait_for_quiet_minute(&cluster).await;
    cluster.down().await;
}

/// Waits for a minute without writes. Outstanding status writes and asynchronous events come before it.
async fn wait_for_quiet_minute(cluster: &TestCluster) {
    let log = cluster.audit_log();
    let waiting = log.wait_until_quiet(WINDOW);
    if tokio::time::timeout(e2e::namespace_state::TIMEOUT, waiting).await.is_err() {
        let writes = log.writes();
        let last: Vec<_> = writes.iter().rev().take(100).collect();
        panic!("the services do not stop writing; the last writes, newest first: {last:#?}");
    }
}
