//! The plan and the status of a binding for observed states.

use expect_test::expect;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::ClusterTopologyBinding;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_runtime::caches::Availability;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::observed::Observed;
use super::plan::plan;
use super::status::status;
use crate::scheduler_topologies::{LiveSchedulerTopology, ObservedSchedulerTopology};

/// A binding with these entries for schedulers, of which the topology object of KAI has these node labels.
fn observed(external: &Value, labels: Option<&[&str]>) -> Observed {
    let binding = json!({
        "metadata": { "name": "racks", "uid": "uid-racks", "generation": 3 },
        "spec": { "levels": [{ "domain": "rack", "key": "r" }], "schedulerTopologyBindings": external },
    });
    let is_external = external[0]["schedulerName"] == "kai-scheduler";
    let live = labels.map(|labels| LiveSchedulerTopology {
        node_labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        generation: Some(9),
        controller: (!is_external).then(|| "uid-racks".to_owned()),
        is_terminating: false,
    });
    Observed {
        binding: serde_json::from_value::<ClusterTopologyBinding>(binding).expect("a binding"),
        scheduler_topologies: vec![ObservedSchedulerTopology {
            scheduler: Scheduler::Kai,
            display_name: "KAI Topology",
            crd_name: "topologies.kai.scheduler".to_owned(),
            reference: if is_external { "x" } else { "racks" }.to_owned(),
            is_external,
            availability: Availability::Served,
            live,
        }],
        is_enabled: true,
        children: ObservedChildren::default(),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
        orphans_children: false,
    }
}

/// The plan and the status after it.
fn describe(observed: &Observed) -> String {
    let now = Timestamp::UNIX_EPOCH;
    let plan = plan(observed, now);
    let status = status(observed, &plan, &ExecutionResult::default(), now);
    let conditions =
        status.conditions.iter().map(|c| format!("{}={} {}: {}\n", c.type_, c.status, c.reason, c.message));
    let statuses = status.scheduler_topology_statuses.iter().map(|status| json!(status).to_string() + "\n");
    format!("{plan}{}{}", conditions.collect::<String>(), statuses.collect::<String>())
}

#[test]
fn a_binding_without_entries_has_a_topology_object_of_its_own() {
    expect![[r#"
        scheduler-topologies: create Topology racks
        SchedulerTopologyDrift=True Drift: One or more scheduler backend topologies have drifted
        {"inSync":false,"message":"KAI Topology \"racks\" not found","schedulerName":"kai-scheduler","topologyReference":"racks"}
    "#]].assert_eq(&describe(&observed(&json!([]), None)));
}

#[test]
fn a_topology_object_that_a_binding_names_is_compared_and_not_changed() {
    let external = json!([{ "schedulerName": "kai-scheduler", "topologyReference": "x" }]);
    let all = [None, Some(["r"].as_slice()), Some(["other"].as_slice())];
    let lines = all.map(|labels| describe(&observed(&external, labels)));
    expect![[r#"
        warn: TopologyDriftDetected One or more scheduler backend topologies have drifted
        SchedulerTopologyDrift=True Drift: One or more scheduler backend topologies have drifted
        {"inSync":false,"message":"KAI Topology \"x\" not found","schedulerName":"kai-scheduler","topologyReference":"x"}

        event: TopologyInSync All scheduler backend topologies are in sync
        SchedulerTopologyDrift=False InSync: All scheduler backend topologies are in sync
        {"inSync":true,"schedulerBackendTopologyObservedGeneration":9,"schedulerName":"kai-scheduler","topologyReference":"x"}

        warn: TopologyDriftDetected One or more scheduler backend topologies have drifted
        SchedulerTopologyDrift=True Drift: One or more scheduler backend topologies have drifted
        {"inSync":false,"message":"KAI Topology levels differ from ClusterTopologyBinding levels","schedulerBackendTopologyObservedGeneration":9,"schedulerName":"kai-scheduler","topologyReference":"x"}
    "#]].assert_eq(&lines.join("\n"));
}

#[test]
fn an_entry_for_an_unavailable_scheduler_is_reported() {
    let external = json!([{ "schedulerName": "volcano", "topologyReference": "x" }]);
    let mut observed = observed(&external, None);
    observed.scheduler_topologies.clear();
    expect![[r#"
        nothing to do
        SchedulerTopologyDrift=Unknown TopologyNotFound: One or more referenced scheduler backends are unavailable for topology management
        {"inSync":false,"message":"the scheduler is not configured, or has no topology objects","schedulerName":"volcano","topologyReference":"x"}
    "#]].assert_eq(&describe(&observed));
}

#[test]
fn without_topology_aware_scheduling_nothing_is_written_and_no_condition_is_left() {
    let mut observed = observed(&json!([]), None);
    (observed.is_enabled, observed.scheduler_topologies) = (false, Vec::new());
    assert_eq!(describe(&observed), "nothing to do\n");
}
