//! The plan and the status of a topology for observed states.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use grove_api_types::admission::ReferencingSet;
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::events::EventBroadcaster;
use grove_controller::executor::{ExecutionResult, Executor};
use grove_controller::expectations::PendingCreates;
use grove_controller::requeue::Requeue;
use grove_controller::status_limiter::StatusChange;
use grove_controller::status_writer::{ExecutedPlan, StatusWriter};
use grove_runtime::caches::Availability;
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::MIN_INTERVAL;
use super::observed::{LiveReferences, Nodes, Observed};
use super::plan::plan;
use super::status::{status, status_change};
use crate::scheduler_topologies::{Kai, LiveSchedulerTopology, ObservedSchedulerTopology, SchedulerTopology};

const MANAGED: &str = "topologyAwareScheduling: {enabled: true, name: racks, levels: [{domain: rack, key: new}]}";
const ENABLED: &str = "topologyAwareScheduling: {enabled: true}";
const DISABLED: &str = "";

/// A topology with the finalizer and these changes, with this configuration.
fn observed(configuration: &str, changes: &Value) -> Observed {
    let mut topology = json!({
        "metadata": { "name": "racks", "uid": "uid-racks", "resourceVersion": "7", "generation": 2,
            "finalizers": ["grove.io/clustertopology"] },
        "spec": { "levels": [{ "domain": "rack", "key": "r" }, { "domain": "host", "key": "h" }] },
    });
    json_patch::merge(&mut topology, changes);
    let text = format!("apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{configuration}");
    let configuration =
        OperatorConfiguration::read(&serde_saphyr::from_str::<Value>(&text).expect("YAML")).expect("a configuration").0;
    Observed {
        topology: serde_json::from_value::<ClusterTopology>(topology).expect("a topology"),
        configuration: configuration.topology,
        schedulers: configuration.schedulers,
        referring_sets: Vec::new(),
        live_references: LiveReferences::NotRead,
        nodes: Nodes { count: 3, with_key: [("r".to_owned(), 3), ("h".to_owned(), 1)].into() },
        scheduler_topologies: Vec::new(),
        children: ObservedChildren::default(),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
    }
}

fn deleted() -> Value {
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })
}

fn set(name: &str, is_scheduled: bool) -> ReferencingSet {
    ReferencingSet { set: format!("prod/{name}"), is_scheduled, domains: ["rack".to_owned()].into() }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// The plan, and each condition of the status after it.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a row")]
fn check(observed: &Observed, expected: Expect) {
    let plan = plan(observed);
    let status = status(observed, &plan, &ExecutionResult::default(), now());
    let condition = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}: {}\n", c.type_, c.status, c.reason, c.message)
    };
    let conditions: String = status.conditions.iter().map(condition).collect();
    expected.assert_eq(&format!("{plan}{conditions}"));
}

#[test]
fn every_topology_gets_the_finalizer_once() {
    let without = json!({ "metadata": { "finalizers": null } });
    check(
        &observed(DISABLED, &without),
        expect![[r#"
            finalizer: patch ClusterTopology racks [{"op":"test","path":"/metadata/uid","value":"uid-racks"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/metadata/finalizers","value":["grove.io/clustertopology"]}]
            Ready=True TopologyAvailable: sets can refer to the topology
        "#]],
    );
    check(
        &observed(DISABLED, &json!({})),
        expect![[r"
        nothing to do
        Ready=True TopologyAvailable: sets can refer to the topology
    "]],
    );
}

#[test]
fn the_finalizer_stays_while_a_set_refers_to_the_topology() {
    let mut terminating = observed(DISABLED, &deleted());
    terminating.referring_sets = vec![set("a", false), set("b", true)];
    check(
        &terminating,
        expect![[r"
        wait: TopologyTerminating the deletion waits until no PodCliqueSet refers to the topology: prod/a, prod/b
        Ready=False TopologyTerminating: the deletion waits until no PodCliqueSet refers to the topology: prod/a, prod/b
    "]],
    );
    terminating.referring_sets.clear();
    for live in [LiveReferences::Some("prod/c".to_owned()), LiveReferences::Failed] {
        terminating.live_references = live;
        assert!(plan(&terminating).is_empty());
    }
    check(
        &terminating,
        expect![[r"
        wait: TopologyTerminating the deletion waits for a list of the PodCliqueSets
        requeue: after 5s
        Ready=False TopologyTerminating: the deletion waits for a list of the PodCliqueSets
    "]],
    );
    terminating.live_references = LiveReferences::None;
    check(
        &terminating,
        expect![[r#"
        finalizer: patch ClusterTopology racks [{"op":"test","path":"/metadata/uid","value":"uid-racks"},{"op":"test","path":"/metadata/finalizers/0","value":"grove.io/clustertopology"},{"op":"remove","path":"/metadata/finalizers/0"}]
        Ready=False TopologyTerminating: the topology is being deleted
    "#]],
    );
}

#[test]
fn the_finalizer_of_the_default_topology_stays_while_topology_aware_scheduling_is_enabled() {
    let default = json!({ "metadata": { "name": "grove-topology", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let mut terminating = observed(ENABLED, &default);
    terminating.live_references = LiveReferences::None;
    assert!(plan(&terminating).is_empty());
    let mut disabled = observed(DISABLED, &default);
    disabled.live_references = LiveReferences::None;
    assert!(!plan(&disabled).is_empty());
    let mut another = observed(ENABLED, &deleted());
    another.live_references = LiveReferences::None;
    assert!(!plan(&another).is_empty(), "a topology that is not the default");
}

#[test]
fn the_managed_default_is_adopted_and_restored() {
    check(
        &observed(MANAGED, &json!({})),
        expect![[r#"
        default-topology: patch ClusterTopology racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":"grove-operator"},"resourceVersion":"7"},"spec":{"levels":[{"domain":"rack","key":"new"}]}}
        Ready=True TopologyAvailable: sets can refer to the topology
    "#]],
    );
    let labelled = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "grove-operator" } } });
    check(
        &observed(MANAGED, &labelled),
        expect![[r#"
        default-topology: patch ClusterTopology racks {"metadata":{"resourceVersion":"7"},"spec":{"levels":[{"domain":"rack","key":"new"}]}}
        Ready=True TopologyAvailable: sets can refer to the topology
    "#]],
    );
    let mut current = labelled.clone();
    current["spec"] = json!({ "levels": [{ "domain": "rack", "key": "new" }] });
    assert!(plan(&observed(MANAGED, &current)).is_empty());
    let of_user = json!({ "metadata": { "name": "mine" } });
    assert!(plan(&observed(MANAGED, &of_user)).is_empty(), "a topology of a user");
}

#[test]
fn levels_in_use_stay_and_the_condition_names_the_sets() {
    let labelled = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "grove-operator" } } });
    let mut in_use = observed(MANAGED, &labelled);
    in_use.referring_sets = vec![set("a", true)];
    check(
        &in_use,
        expect![[r"
        wait: LevelsInUse spec.levels: Forbidden: cannot be changed while PodCliqueSets with scheduled pods refer to the topology: prod/a. Create another topology, or delete those sets first
        warn: DefaultTopologyUpdateFailed spec.levels: Forbidden: cannot be changed while PodCliqueSets with scheduled pods refer to the topology: prod/a. Create another topology, or delete those sets first
        Ready=False LevelsInUse: spec.levels: Forbidden: cannot be changed while PodCliqueSets with scheduled pods refer to the topology: prod/a. Create another topology, or delete those sets first
    "]],
    );
    let status = status(&in_use, &plan(&in_use), &ExecutionResult::default(), now());
    in_use.topology.status = Some(status);
    assert_eq!(plan(&in_use).warnings, [], "the condition reports it");
}

#[test]
fn a_topology_that_is_no_longer_managed_loses_only_its_label() {
    let labelled = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "grove-operator" } } });
    check(
        &observed(ENABLED, &labelled),
        expect![[r#"
        default-topology: patch ClusterTopology racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"resourceVersion":"7"}}
        Ready=True TopologyAvailable: sets can refer to the topology
    "#]],
    );
}

#[test]
fn a_topology_object_with_other_levels_is_deleted_and_then_created() {
    let mut observed = observed(ENABLED, &json!({}));
    observed.scheduler_topologies = vec![scheduler_topology(None)];
    check(
        &observed,
        expect![[r#"
        scheduler-topologies: create Topology racks
        Ready=True TopologyAvailable: sets can refer to the topology
        SchedulerTopologyDrift=True Drift: KAI Topology "racks" not found
    "#]],
    );
    let live =
        json!({ "metadata": { "name": "racks", "uid": "uid-topology" }, "spec": { "levels": [{ "nodeLabel": "r" }] } });
    let live: SchedulerTopology<Kai> = serde_json::from_value(live).expect("a topology object");
    observed.children.extend([Arc::new(live)]);
    check(
        &observed,
        expect![[r#"
        scheduler-topologies: delete Topology racks
        Ready=True TopologyAvailable: sets can refer to the topology
        SchedulerTopologyDrift=True Drift: KAI Topology "racks" not found
    "#]],
    );
    observed.scheduler_topologies[0].availability = Availability::NotServed;
    check(
        &observed,
        expect![[r"
        scale-in: delete Topology racks
        Ready=True TopologyAvailable: sets can refer to the topology
        SchedulerTopologyDrift=True Drift: the API server does not serve topologies.kai.scheduler; install kai-scheduler
    "]],
    );
}

fn scheduler_topology(live: Option<LiveSchedulerTopology>) -> ObservedSchedulerTopology {
    ObservedSchedulerTopology {
        scheduler: Scheduler::Kai,
        display_name: "KAI Topology",
        crd_name: "topologies.kai.scheduler".to_owned(),
        reference: "racks".to_owned(),
        is_external: false,
        availability: Availability::Served,
        live,
    }
}

#[test]
fn the_condition_names_a_topology_object_of_another_owner() {
    let live = |controller: &str| LiveSchedulerTopology {
        node_labels: vec!["r".to_owned(), "h".to_owned()],
        controller: Some(controller.to_owned()),
        ..LiveSchedulerTopology::default()
    };
    let drift = |topology: ObservedSchedulerTopology| {
        let mut observed = observed(DISABLED, &json!({}));
        observed.scheduler_topologies = vec![topology];
        let drift = observed.drift().expect("a condition");
        format!("{} {}: {}", drift.status.as_str(), drift.reason, drift.message)
    };
    let not_served = ObservedSchedulerTopology { availability: Availability::NotServed, ..scheduler_topology(None) };
    let lines = [
        scheduler_topology(Some(live("uid-racks"))),
        scheduler_topology(Some(live("other"))),
        scheduler_topology(None),
        not_served,
    ];
    expect![[r#"
        False InSync: All scheduler backend topologies are in sync
        True Drift: KAI Topology "racks" exists and ClusterTopology racks does not control it; delete or rename it
        True Drift: KAI Topology "racks" not found
        True Drift: the API server does not serve topologies.kai.scheduler; install kai-scheduler"#]]
    .assert_eq(&lines.map(drift).join("\n"));
}

#[test]
fn the_status_counts_sets_and_nodes() {
    let mut observed = observed(DISABLED, &json!({}));
    observed.referring_sets = (0..12).map(|index| set(&format!("s{index:02}"), index == 3)).collect();
    let first = status(&observed, &plan(&observed), &ExecutionResult::default(), now());
    assert_eq!(status_change(&observed, &first), StatusChange::Significant);
    let names = first.referring_set_names.len();
    assert_eq!((first.referring_sets, names, first.scheduled_sets, first.nodes), (Some(12), 10, Some(1), Some(3)));
    let without: Vec<_> = first.nodes_without_key.iter().map(|level| (level.key.as_str(), level.nodes)).collect();
    assert_eq!(without, [("r", 0), ("h", 2)]);
    observed.topology.status = Some(first.clone());
    observed.referring_sets.pop();
    let second = status(&observed, &plan(&observed), &ExecutionResult::default(), now());
    assert_ne!(first, second);
    assert_eq!(status_change(&observed, &second), StatusChange::Minor);
}

/// One reconcile without steps. If the status was written, the topology has it afterwards, as after its watch event.
async fn reconcile(writer: &StatusWriter, observed: &mut Observed) -> Requeue {
    let plan = plan(observed);
    assert!(plan.is_empty(), "{plan}");
    let mut new = None;
    let status = |result: &ExecutionResult| {
        let status = status(observed, &plan, result, now());
        let change = status_change(observed, &status);
        (new.insert(status).clone(), change)
    };
    let (result, pending_creates) = (ExecutionResult::default(), Some(&observed.pending_creates));
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, omits_status: false };
    let requeue = writer.write_after(&observed.topology, executed, status).await.expect("a reconcile");
    if requeue == Requeue::AwaitChange {
        observed.topology.status = new;
    }
    requeue
}

/// A film: sets are created one after the other, and each triggers a reconcile. Later, only the work queue triggers, when the status is due.
#[tokio::test(start_paused = true)]
async fn a_thousand_new_sets_cause_few_status_writes() {
    let interval = MIN_INTERVAL;
    for (pace, writes) in [(Duration::ZERO, 2), (Duration::from_millis(10), 2), (Duration::from_millis(250), 18)] {
        let (client, log) = mock_api_server::client(|request: &RecordedRequest| MockResponse::ok(request.body.clone()));
        let executor = Executor::new(client, EventBroadcaster::discarding(), Metrics::new().expect("metrics"));
        let (writer, mut observed) =
            (StatusWriter::new(executor).with_min_interval(interval), observed(ENABLED, &json!({})));
        assert_eq!(reconcile(&writer, &mut observed).await, Requeue::AwaitChange);
        tokio::time::advance(interval).await;
        let before = log.requests().len();
        for number in 0..1000 {
            observed.referring_sets.push(set(&format!("s{number:03}"), false));
            let requeue = reconcile(&writer, &mut observed).await;
            assert!(number > 0 || requeue == Requeue::AwaitChange, "the first change is written at once");
            tokio::time::advance(pace).await;
        }
        while let Requeue::StatusAfter(due) = reconcile(&writer, &mut observed).await {
            assert!(due <= interval, "{due:?}");
            tokio::time::advance(due).await;
        }
        assert_eq!(observed.topology.status.as_ref().and_then(|status| status.referring_sets), Some(1000));
        assert_eq!(log.requests().len() - before, writes, "a set each {pace:?}");
    }
}
