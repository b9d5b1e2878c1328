//! The desired pod.

use expect_test::{Expect, expect};
use grove_api_types::scheduler::Scheduler;
use grove_controller::plan::{Create, Step};

use super::{plan, snapshot};
use crate::clique::desired::FirstPods;

/// One part of the first pod that the plan creates, as text.
#[track_caller]
fn check(row: &str, pointer: &str, expected: &Expect) {
    let plan = plan(&snapshot(row));
    let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod: {plan}") };
    let object = object.value();
    let part = object.pointer(pointer).expect("the part");
    expected.assert_eq(&serde_json::to_string_pretty(part).unwrap());
}

#[test]
fn a_pod_has_the_labels_and_the_owner_of_the_go_operator() {
    let row = "
replicas: 1
gang: []
labels: {team: x, grove.io/podclique: overwritten}
annotations: {note: retained, kubectl.kubernetes.io/last-applied-configuration: '{}', grove.io/podcliqueset-generation-hash: 1g}
";
    check(
        row,
        "/metadata",
        &expect![[r#"
        {
          "annotations": {
            "note": "retained"
          },
          "labels": {
            "app.kubernetes.io/component": "pcs-podclique",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/name": "llm-0-decode",
            "app.kubernetes.io/part-of": "llm",
            "grove.io/pod-template-hash": "1new",
            "grove.io/podclique": "llm-0-decode",
            "grove.io/podclique-pod-index": "0",
            "grove.io/podcliqueset-replica-index": "0",
            "grove.io/podgang": "llm-0",
            "team": "x"
          },
          "name": "llm-0-decode-ml5tj",
          "namespace": "prod",
          "ownerReferences": [
            {
              "apiVersion": "grove.io/v1alpha1",
              "blockOwnerDeletion": true,
              "controller": true,
              "kind": "PodClique",
              "name": "llm-0-decode",
              "uid": "clique-uid"
            }
          ]
        }"#]],
    );
}

#[test]
fn the_first_pod_of_a_replica_has_the_labels_that_autoscalers_select() {
    let row = "{replicas: 2, annotations: {grove.io/podcliqueset-first-pod: 'true', grove.io/podcliquescalinggroup-first-pod-index: '3'}}";
    let plan = plan(&snapshot(row));
    let pods: Vec<_> = plan.steps().collect();
    let label = |at: usize, key: &str| {
        let Step::Create(Create { object, .. }) = pods[at] else { panic!("{plan}") };
        let metadata = object.value()["metadata"].clone();
        for of_clique in ["grove.io/podcliqueset-first-pod", "grove.io/podcliquescalinggroup-first-pod-index"] {
            assert!(metadata["annotations"][of_clique].is_null(), "{metadata}");
        }
        metadata["labels"][key].as_str().map(str::to_owned)
    };
    for (at, first, index) in [(0, Some("true"), "3"), (1, None, "4")] {
        assert_eq!(label(at, "grove.io/podcliqueset-first-pod").as_deref(), first);
        assert_eq!(label(at, "grove.io/podcliquescalinggroup-pod-index").as_deref(), Some(index));
    }
    assert!(FirstPods::of(&snapshot("{}").clique).labels(0).is_empty());
}

#[test]
fn a_pod_gets_its_environment_variables() {
    check(
        "{replicas: 1, gang: []}",
        "/spec",
        &expect![[r#"
        {
          "containers": [
            {
              "env": [
                {
                  "name": "GROVE_PCS_NAME",
                  "value": "llm"
                },
                {
                  "name": "GROVE_PCS_INDEX",
                  "value": "0"
                },
                {
                  "name": "GROVE_PCLQ_NAME",
                  "value": "llm-0-decode"
                },
                {
                  "name": "GROVE_HEADLESS_SERVICE",
                  "value": "llm-0.prod.svc.cluster.local"
                },
                {
                  "name": "GROVE_PCLQ_POD_INDEX",
                  "valueFrom": {
                    "fieldRef": {
                      "fieldPath": "metadata.labels['grove.io/podclique-pod-index']"
                    }
                  }
                }
              ],
              "name": "main"
            }
          ],
          "hostname": "llm-0-decode-0",
          "schedulerName": "default-scheduler",
          "subdomain": "llm-0"
        }"#]],
    );
}

#[test]
fn groves_variables_come_first_and_replace_those_of_the_user() {
    let row = "
replicas: 1
gang: []
podSpec:
  initContainers: [{name: init}]
  containers:
  - name: main
    env: [{name: A, value: $(GROVE_PCS_NAME)}, {name: GROVE_PCS_INDEX, value: mine}, {name: GROVE_PCSG_NAME, value: g}]
  - {name: side, env: null}
  ephemeralContainers: [{name: debug}]
";
    let names = |pointer: &str| {
        let plan = plan(&snapshot(row));
        let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod: {plan}") };
        let env = object.value().pointer(pointer).and_then(|env| env.as_array().cloned()).unwrap_or_default();
        env.iter().map(|variable| variable["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let ours = "GROVE_PCS_NAME GROVE_PCS_INDEX GROVE_PCLQ_NAME GROVE_HEADLESS_SERVICE GROVE_PCLQ_POD_INDEX";
    assert_eq!(names("/spec/containers/0/env"), format!("{ours} A GROVE_PCSG_NAME"));
    assert_eq!(names("/spec/containers/1/env"), ours);
    assert_eq!(names("/spec/initContainers/0/env"), ours);
    assert_eq!(names("/spec/ephemeralContainers/0/env"), "");
}

#[test]
fn pods_without_a_scheduler_get_the_configured_one() {
    let mut observed = snapshot("{replicas: 1, gang: []}");
    observed.default_scheduler = Scheduler::Volcano;
    let plan = plan(&observed);
    let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod: {plan}") };
    assert_eq!(object.value()["spec"]["schedulerName"], "volcano");
}

#[test]
fn the_users_scheduler_gates_and_unknown_fields_stay() {
    let row = "
replicas: 1
gang: []
podSpec:
  schedulerName: mine
  hostname: overwritten
  subdomain: overwritten
  schedulingGates: [{name: kueue.x-k8s.io/admission}]
  fieldOfTheFuture: {deep: [1]}
  containers: []
";
    check(
        row,
        "/spec",
        &expect![[r#"
        {
          "containers": [],
          "fieldOfTheFuture": {
            "deep": [
              1
            ]
          },
          "hostname": "llm-0-decode-0",
          "schedulerName": "mine",
          "schedulingGates": [
            {
              "name": "kueue.x-k8s.io/admission"
            }
          ],
          "subdomain": "llm-0"
        }"#]],
    );
}

#[test]
fn a_gate_that_the_template_contains_is_not_added_twice() {
    let row = "
base: {llm-0-a: 1}
gang: []
podSpec: {schedulingGates: [{name: grove.io/podgang-pending-creation}, {name: own.io/gate}], containers: []}
";
    check(
        row,
        "/spec/schedulingGates",
        &expect![[r#"
        [
          {
            "name": "grove.io/podgang-pending-creation"
          },
          {
            "name": "own.io/gate"
          }
        ]"#]],
    );
}

/// pcs-controller adds the claim of MNNVL to the clique; the pod gets no claim of its own.
#[test]
fn a_pod_has_exactly_the_claims_of_its_clique() {
    let container = |claims: &str| format!("{{name: main, resources: {{limits: {{nvidia.com/gpu: 8}}{claims}}}}}");
    let row = |claims: &str, of_container: &str| {
        format!("{{replicas: 1, gang: [], podSpec: {{{claims}containers: [{}]}}}}", container(of_container))
    };
    let spec_of = |row: &str| {
        let plan = plan(&snapshot(row));
        let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod: {plan}") };
        object.value()["spec"].clone()
    };
    let claims = "resourceClaims: [{name: mnnvl-claim, resourceClaimTemplateName: llm-0}], ";
    let with = spec_of(&row(claims, ", claims: [{name: mnnvl-claim}]"));
    expect![[r#"[{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-0"}]"#]]
        .assert_eq(&with["resourceClaims"].to_string());
    expect![[r#"{"claims":[{"name":"mnnvl-claim"}],"limits":{"nvidia.com/gpu":8}}"#]]
        .assert_eq(&with["containers"][0]["resources"].to_string());
    let without = spec_of(&row("", ""));
    assert!(without.get("resourceClaims").is_none(), "{without}");
    expect![[r#"{"limits":{"nvidia.com/gpu":8}}"#]].assert_eq(&without["containers"][0]["resources"].to_string());
}
