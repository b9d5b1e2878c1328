//! The fields that the condition `UnsupportedFields` of a set lists.

use expect_test::{Expect, expect};
use grove_api_types::crds::crds;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::unsupported_fields;
use grove_api_types::v1alpha1::PodCliqueSet;
use serde_json::{Value, json};

/// A set with each unsupported field.
const ALL_FIELDS: &str = "
metadata: {name: s, annotations: {grove.io/auto-mnnvl: enabled, grove.io/mnnvl-group: fabric}}
spec:
  template:
    cliqueStartupType: CliqueStartupTypeExplicit
    clusterTopologyName: t
    topologyConstraint: {packDomain: rack}
    terminationDelay: 1h
    cliques:
    - {name: a, spec: {podSpec: {containers: []}}}
    - name: b
      annotations: {grove.io/mnnvl-group: fabric}
      topologyConstraint: {pack: {required: host}}
      rollingUpdate: {maxUnavailable: 10%}
      spec: {startsAfter: [a], podSpec: {schedulerName: kai-scheduler, containers: []}}
    - {name: c, spec: {podSpec: {schedulerName: volcano, schedulingGroup: {podGroupName: own}, containers: []}}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [b]
      annotations: {grove.io/mnnvl-group: fabric}
      topologyConstraint: {pack: {preferred: host}}
      rollingUpdate: {maxUnavailable: 5000000000, progressDeadline: 1h}
";

fn fields_of(set: &str) -> Vec<String> {
    let mut value: Value = serde_saphyr::from_str(set).expect("YAML");
    value["apiVersion"] = json!("grove.io/v1alpha1");
    value["kind"] = json!("PodCliqueSet");
    let set: PodCliqueSet = serde_json::from_value(value).expect("a set");
    unsupported_fields::fields(&set, Scheduler::default(), false)
}

#[track_caller]
fn check(set: &str, expected: &Expect) {
    expected.assert_eq(&fields_of(set).join("\n"));
}

#[test]
fn what_is_acted_on_is_not_named() {
    check(
        "
metadata: {name: s, annotations: {grove.io/auto-mnnvl: disabled, kai.scheduler/queue: q}}
spec:
  replicas: 2
  template:
    cliqueStartupType: CliqueStartupTypeAnyOrder
    priorityClassName: high
    terminationDelay: 240m
    headlessServiceConfig: {publishNotReadyAddresses: false}
    resourceClaimTemplates: [{name: gpus, templateSpec: {spec: {}}}]
    resourceSharing: [{name: gpus, scope: AllReplicas}]
    cliques:
    - name: a
      annotations: {grove.io/mnnvl-group: none}
      resourceSharing: [{name: gpus, scope: PerReplica}]
      resourceClaimTemplateNames: [shared]
      spec: {roleName: a, replicas: 2, minAvailable: 1, autoScalingConfig: {maxReplicas: 4}, podSpec: {containers: []}}
    - {name: b, spec: {podSpec: {schedulerName: default-scheduler, containers: []}}}
    - {name: c, spec: {podSpec: {schedulerName: lpx-scheduler, containers: []}}}
    - {name: d, spec: {podSpec: {schedulerName: kai-scheduler, containers: []}}}
    - {name: e, spec: {podSpec: {schedulerName: '', containers: []}}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [a]
      replicas: 2
      minAvailable: 1
      scaleConfig: {maxReplicas: 3}
      resourceSharing: [{name: gpus, scope: PerReplica}]
      resourceClaimTemplateConfigs: [{names: [shared]}]
",
        &expect![""],
    );
}

#[test]
fn unsupported_fields_are_listed_by_path() {
    check(
        ALL_FIELDS,
        &expect![[r"
            spec.template.clusterTopologyName
            spec.template.topologyConstraint
            spec.template.terminationDelay
            spec.template.cliques[1].topologyConstraint
            spec.template.cliques[2].spec.podSpec.schedulingGroup
            spec.template.podCliqueScalingGroups[0].topologyConstraint"]],
    );
}

/// Grove replaces no running pods, and the default of Dynamo's operator is not a choice of the user.
#[test]
fn fields_with_the_effect_that_grove_has_anyway_are_not_listed() {
    let set = "
metadata: {name: s}
spec:
  updateStrategy: {type: OnDelete}
  template: {terminationDelay: 15m, cliques: []}
";
    check(set, &expect![""]);
}

/// What `kubectl explain` shows for a field of a set. The fields of a pod spec have no descriptions of their own.
fn description<'a>(schema: &'a Value, path: &str) -> &'a str {
    let path = path.split_inclusive("podSpec").next().unwrap_or_default();
    let mut field = schema;
    for step in path.split('.') {
        let (name, index) = step.split_once('[').map_or((step, None), |(name, index)| (name, Some(index)));
        field = &field["properties"][name];
        if index.is_some() {
            field = &field["items"];
        }
    }
    field["description"].as_str().unwrap_or_default()
}

#[test]
fn the_description_of_an_unsupported_field_names_its_missing_effect() {
    let crds = crds();
    let sets = crds.iter().find(|crd| crd.spec.names.kind == "PodCliqueSet").expect("the CRD of sets");
    let schema = serde_json::to_value(&sets.spec.versions[0].schema).expect("a schema");
    for path in fields_of(ALL_FIELDS) {
        let description = description(&schema["openAPIV3Schema"], &path).replace('\n', " ");

        assert!(description.contains("has no effect"), "{path}: {description}");
    }
}

#[test]
fn topology_constraints_are_supported_with_pod_groups() {
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "s" },
        "spec": { "template": { "topologyConstraint": { "packDomain": "rack" }, "cliques": [] } } });
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let fields = |scheduler, has_pod_groups| unsupported_fields::fields(&set, scheduler, has_pod_groups);
    let constraint = vec!["spec.template.topologyConstraint".to_owned()];
    for (scheduler, has_pod_groups, expected) in [
        (Scheduler::Kube, true, vec![]),
        (Scheduler::Kube, false, constraint.clone()),
        (Scheduler::Kai, false, vec![]),
        (Scheduler::Volcano, true, constraint),
    ] {
        assert_eq!(fields(scheduler, has_pod_groups), expected, "{scheduler:?} {has_pod_groups}");
    }
}

#[test]
fn a_message_names_the_first_and_counts_the_rest() {
    let fields = |count: usize| (0..count).map(|index| index.to_string()).collect::<Vec<_>>();
    assert_eq!(unsupported_fields::message(&fields(0)), None);
    let two = "not supported by this version: 0, 1; remove these fields, or run a version that supports them";
    assert_eq!(unsupported_fields::message(&fields(2)).as_deref(), Some(two));
    assert!(unsupported_fields::message(&fields(20)).is_some_and(|message| message.contains(", 18, 19; ")));
    assert!(unsupported_fields::message(&fields(25)).is_some_and(|message| message.contains(", 19 and 5 more; ")));
}
