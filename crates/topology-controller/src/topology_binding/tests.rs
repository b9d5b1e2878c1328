//! The plan and the status of a binding for observed states.

use std::sync::Arc;

use expect_test::expect;
use futures::{FutureExt, StreamExt};
use grove_api_types::configuration::{OperatorConfiguration, TopologyAwareScheduling};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Availability, Cache, InformerOptions};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::bindings_of_topology;
use super::observed::Observed;
use super::plan::plan;
use super::status::status;
use crate::scheduler_topologies::{Kai, LiveSchedulerTopology, ObservedSchedulerTopology, SchedulerTopology};

fn configuration(section: &str) -> TopologyAwareScheduling {
    let text = format!("apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{section}");
    let file = serde_saphyr::from_str::<Value>(&text).expect("YAML");
    OperatorConfiguration::read(&file).expect("a configuration").0.topology
}

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
        topology: None,
        configuration: configuration("topologyAwareScheduling: {enabled: true}"),
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
    let plan = plan(observed);
    let status = status(observed, &ExecutionResult::default(), now);
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
fn the_cluster_topology_of_the_same_name_has_the_topology_objects() {
    let topology = || Some(Topology { name: "racks".to_owned(), ..Topology::default() });
    let own = Observed { topology: topology(), ..observed(&json!([]), Some(&["r"])) };
    assert_eq!(describe(&own), "nothing to do\n");
    let mut with_object = own;
    let live =
        json!({ "metadata": { "name": "racks", "uid": "uid-topology" }, "spec": { "levels": [{ "nodeLabel": "r" }] } });
    let live: SchedulerTopology<Kai> = serde_json::from_value(live).expect("a topology object");
    with_object.children.extend([Arc::new(live)]);
    expect![[r"
        scale-in: delete Topology racks
    "]]
    .assert_eq(&describe(&with_object));
    let external = json!([{ "schedulerName": "kai-scheduler", "topologyReference": "x" }]);
    let external = Observed { topology: topology(), ..observed(&external, Some(&["r"])) };
    expect![[r#"
        event: TopologyInSync All scheduler backend topologies are in sync
        SchedulerTopologyDrift=False InSync: All scheduler backend topologies are in sync
        {"inSync":true,"schedulerBackendTopologyObservedGeneration":9,"schedulerName":"kai-scheduler","topologyReference":"x"}
    "#]]
    .assert_eq(&describe(&external));
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
    (observed.configuration, observed.scheduler_topologies) = (configuration(""), Vec::new());
    assert_eq!(describe(&observed), "nothing to do\n");
}

const MANAGED: &str = "topologyAwareScheduling: {enabled: true, name: racks, levels: [{domain: rack, key: r}]}";

/// The binding of the default topology with this label and level. There is a `ClusterTopology` with the level `topology`.
fn of_default(section: &str, label: Option<&str>, key: &str, topology: Option<&str>) -> Observed {
    let mut observed = observed(&json!([]), None);
    observed.scheduler_topologies.clear();
    observed.configuration = configuration(section);
    observed.binding.metadata.resource_version = Some("7".to_owned());
    let label = label.map(|label| [("app.kubernetes.io/managed-by".to_owned(), label.to_owned())].into());
    observed.binding.metadata.labels = label;
    key.clone_into(&mut observed.binding.spec.levels[0].key);
    observed.topology = topology.map(|key| {
        let levels = json!({ "levels": [{ "domain": "rack", "key": key }] });
        Topology::from(&ClusterTopology::new("racks", serde_json::from_value(levels).expect("a spec")))
    });
    observed
}

#[test]
fn the_binding_of_the_managed_default_gets_the_label_and_the_levels_of_the_cluster_topology() {
    let ours = Some("grove-operator");
    let lines = [
        of_default(MANAGED, ours, "r", Some("r")),
        of_default(MANAGED, None, "r", Some("r")),
        of_default(MANAGED, Some("Helm"), "r", None),
        of_default(MANAGED, None, "edited", Some("r")),
        // The ClusterTopology retains its levels while sets use them.
        of_default(MANAGED, ours, "r", Some("old")),
        of_default(MANAGED, ours, "old", Some("old")),
    ];
    expect![[r#"
        nothing to do
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":"grove-operator"},"resourceVersion":"7"}}
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":"grove-operator"},"resourceVersion":"7"}}
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":"grove-operator"},"resourceVersion":"7"},"spec":{"levels":[{"domain":"rack","key":"r"}]}}
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"resourceVersion":"7"},"spec":{"levels":[{"domain":"rack","key":"old"}]}}
        nothing to do
    "#]]
    .assert_eq(&lines.map(|observed| describe(&observed)).join(""));
}

#[test]
fn a_binding_that_is_no_longer_managed_loses_only_its_label() {
    let ours = Some("grove-operator");
    let enabled = "topologyAwareScheduling: {enabled: true, name: racks}";
    let other = "topologyAwareScheduling: {enabled: true, name: other, levels: [{domain: rack, key: x}]}";
    let disabled = "topologyAwareScheduling: {enabled: false, levels: [{domain: rack, key: x}]}";
    let lines = [enabled, other, disabled].map(|section| describe(&of_default(section, ours, "old", Some("r"))));
    expect![[r#"
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"resourceVersion":"7"}}
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"resourceVersion":"7"}}
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"resourceVersion":"7"}}
    "#]]
    .assert_eq(&lines.join(""));
    assert_eq!(describe(&of_default(other, None, "old", Some("r"))), "nothing to do\n", "a binding of a user");
}

#[test]
fn a_binding_with_other_levels_than_the_configuration_stays_and_reports_it() {
    let mut observed = of_default(MANAGED, None, "of-user", None);
    expect![[r"
        wait: LevelsDiffer the configuration has other levels of the default topology: rack=r; set spec.levels to them, or change topologyAwareScheduling.levels or topologyAwareScheduling.name
        warn: DefaultTopologyUpdateFailed the configuration has other levels of the default topology: rack=r; set spec.levels to them, or change topologyAwareScheduling.levels or topologyAwareScheduling.name
        Ready=False LevelsDiffer: the configuration has other levels of the default topology: rack=r; set spec.levels to them, or change topologyAwareScheduling.levels or topologyAwareScheduling.name
    "]]
    .assert_eq(&describe(&observed));
    let now = Timestamp::UNIX_EPOCH;
    observed.binding.status = Some(status(&observed, &ExecutionResult::default(), now));
    assert_eq!(plan(&observed).warnings, [], "the condition reports it");
    observed.binding.spec.levels[0].key = "r".to_owned();
    expect![[r#"
        default-topology: patch ClusterTopologyBinding racks {"metadata":{"labels":{"app.kubernetes.io/managed-by":"grove-operator"},"resourceVersion":"7"}}
    "#]]
    .assert_eq(&describe(&observed));
}

#[test]
fn a_cluster_topology_triggers_the_binding_of_its_name_if_its_levels_change() {
    let (topologies, writer) = Cache::with_writer(InformerOptions::<ClusterTopology>::default());
    let bindings = Cache::from_objects([observed(&json!([]), None).binding]);
    let mut triggers = Box::pin(bindings_of_topology(&topologies, &bindings));
    let mut triggered = |objects: Vec<ClusterTopology>| {
        writer.replace(objects);
        let names = std::iter::from_fn(|| triggers.next().now_or_never().flatten());
        names
            .map(|trigger| match trigger {
                Trigger::Reconcile(binding) => binding.name,
                Trigger::LowPriority(_) | Trigger::Retry(_) => panic!("no reconcile"),
            })
            .collect::<Vec<_>>()
    };
    let topology = |name: &str, key: &str, version: &str| {
        let levels = json!({ "levels": [{ "domain": "rack", "key": key }] });
        let mut topology = ClusterTopology::new(name, serde_json::from_value(levels).expect("a spec"));
        topology.metadata.resource_version = Some(version.to_owned());
        topology
    };
    assert_eq!(triggered(vec![topology("racks", "r", "1"), topology("other", "r", "1")]), ["racks"]);
    assert!(triggered(vec![topology("racks", "r", "2")]).is_empty(), "the same levels");
    assert_eq!(triggered(vec![topology("racks", "new", "3")]), ["racks"]);
    assert_eq!(triggered(vec![]), ["racks"]);
}
