//! The start-up order of the pods of a clique.

use expect_test::expect;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Step;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{check, plan, snapshot, status};

/// The spec of the first pod that the plan creates.
fn spec(row: &str) -> Value {
    let plan = plan(&snapshot(row));
    let pods = plan.steps().filter_map(|step| match step {
        Step::Create(create) => Some(create).filter(|create| create.target.resource.kind == "Pod"),
        Step::Patch(_) | Step::Adopt(_) | Step::Delete(_) => None,
    });
    let pod = pods.into_iter().next().unwrap_or_else(|| panic!("no pod: {plan}"));
    pod.object.value()["spec"].clone()
}

#[test]
fn a_pod_with_parents_gets_the_init_container_of_the_go_operator() {
    let row = "
gang: []
podSpec: {containers: [{name: main}], initContainers: [{name: own}], volumes: [{name: data, emptyDir: {}}]}
claims: {own: [{t: shared}]}
startup: {image: 'i:1', parents: [{name: llm-0-a, required: 2}, {name: llm-0-g-0-b, required: 1, ready: 1}]}
";
    let spec = spec(row);
    assert_eq!(spec["initContainers"][0]["name"], "own");
    assert!(spec["initContainers"][0]["env"].is_array() && spec["initContainers"][0]["resources"].is_object());
    expect![[r#"
        {
          "args": [
            "--podcliques=llm-0-a:2",
            "--podcliques=llm-0-g-0-b:1"
          ],
          "image": "i:1",
          "name": "grove-initc",
          "resources": {
            "requests": {
              "cpu": "10m",
              "memory": "16Mi"
            }
          },
          "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {
              "drop": [
                "ALL"
              ]
            },
            "readOnlyRootFilesystem": true,
            "runAsGroup": 65532,
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "seccompProfile": {
              "type": "RuntimeDefault"
            }
          },
          "volumeMounts": [
            {
              "mountPath": "/var/grove/pod-info",
              "name": "pod-info-vol",
              "readOnly": true
            },
            {
              "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
              "name": "sa-token-secret-vol",
              "readOnly": true
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&spec["initContainers"][1]).unwrap());
    assert_eq!(spec["volumes"][0]["name"], "data");
    expect![[r#"
        {"name":"sa-token-secret-vol","secret":{"defaultMode":420,"secretName":"llm-ic-sat"}}
        {"downwardAPI":{"items":[{"fieldRef":{"fieldPath":"metadata.namespace"},"path":"namespace"},{"fieldRef":{"fieldPath":"metadata.labels['grove.io/podgang']"},"path":"podgangname"}]},"name":"pod-info-vol"}"#]].assert_eq(&format!("{}\n{}", spec["volumes"][1], spec["volumes"][2]));
}

#[test]
fn the_init_container_uses_no_claims() {
    let row = "{gang: [], claims: {own: [{t: shared}, {t: gpus, per: true}]}, startup: {image: i, parents: [{name: llm-0-a, required: 1}]}}";
    let spec = spec(row);
    assert_eq!(spec["containers"][0]["resources"]["claims"].as_array().map(Vec::len), Some(2));
    assert!(spec["initContainers"][0]["resources"]["claims"].is_null(), "{spec}");
}

#[test]
fn a_projected_token_is_that_of_the_account_of_the_pod() {
    let spec = spec("{gang: [], startup: {image: i, projected: true, parents: [{name: llm-0-a, required: 1}]}}");
    expect![[r#"{"name":"sa-token-secret-vol","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3600,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}}]}}"#]].assert_eq(&spec["volumes"][0].to_string());
}

#[test]
fn a_pod_does_not_wait_without_a_parent_that_needs_ready_pods() {
    for row in [
        "{gang: []}",
        "{gang: [], startup: {image: i, parents: []}}",
        "{gang: [], startup: {image: i, parents: [{name: llm-0-a, required: 0}]}}",
        "{gang: [], startup: {parents: [{name: llm-0-a, required: 0}]}}",
    ] {
        let spec = spec(row);
        assert!(spec["initContainers"].is_null() && spec["volumes"].is_null(), "{row}: {spec}");
    }
}

#[test]
fn no_pod_is_created_before_its_parents_exist() {
    check(
        "{gang: [], startup: {image: i, parents: [{name: llm-0-a}, {name: llm-0-b, required: 1}, {name: llm-0-c}]}}",
        &expect![[r"
            wait: StartupDependencyNotFound no pods are created until the PodCliques exist that they start after: llm-0-a, llm-0-c
        "]],
    );
}

#[test]
fn no_pod_is_created_without_the_image_of_its_init_container() {
    check(
        "{gang: [], startup: {parents: [{name: llm-0-a, required: 1}]}}",
        &expect![[r"
        wait: InitContainerImageUnknown no pods are created, because the image of their init container is unknown: set --init-container-image or GROVE_INIT_CONTAINER_IMAGE of pclq-controller
    "]],
    );
}

/// A user may start the service without an image after an upgrade.
#[test]
fn existing_pods_need_neither_parents_nor_an_image() {
    let row = "{gang: [a], pods: [{i: 0, name: a, ready: true}], startup: {parents: [{name: llm-0-a}]}}";
    check(
        row,
        &expect![[r"
        nothing to do
    "]],
    );
}

/// A user scaled the parent: the pod would wait for pods that are not wanted.
#[test]
fn a_pod_that_waits_for_another_number_of_ready_pods_is_replaced() {
    let row = |pod: &str, startup: &str| {
        format!("{{gang: [a], pods: [{{i: 0, name: a, version: '7', bound: true, {pod}}}], startup: {startup}}}")
    };
    let waits = "phase: Pending, initc: '--podcliques=llm-0-a:2'";
    let parent = |required: i32| format!("{{image: i, parents: [{{name: llm-0-a, required: {required}}}]}}");
    for required in [0, 1, 3] {
        check(
            &row(waits, &parent(required)),
            &expect![[r"
                pods: delete Pod ~-a at version 7
            "]],
        );
    }
    for (pod, startup) in [
        (waits, parent(2)),
        ("initialized: true, initc: '--podcliques=llm-0-a:2'", parent(1)),
        // An init container of the user.
        ("phase: Pending, initc: own", parent(1)),
        // A pod without init container starts now.
        ("phase: Pending", parent(1)),
        // Nothing could replace the pod.
        (waits, "{image: i, parents: [{name: llm-0-a}]}".to_owned()),
        (waits, "{parents: [{name: llm-0-a, required: 1}]}".to_owned()),
    ] {
        check(
            &row(pod, &startup),
            &expect![[r"
            nothing to do
        "]],
        );
    }
}

fn available(row: &str) -> String {
    let status = status(&snapshot(row), &ExecutionResult::default(), Timestamp::from_second(100).unwrap());
    let available = &status.conditions[0];
    format!("{}: {}", available.reason, available.message)
}

#[test]
fn the_status_names_the_parents_that_pods_wait_for() {
    let parents = "startup: {image: i, parents: [{name: llm-0-a, required: 2, ready: 1}, {name: llm-0-b, required: 1, ready: 1}, {name: llm-0-c, required: 1}]}";
    let of_pod = |pod: &str| available(&format!("{{gang: [a], pods: [{{i: 0, name: a, {pod}}}], {parents}}}"));
    expect!["StartupDependenciesPending: 0 of 1 pods ready, 1 not ready; pods start after PodClique llm-0-a (1 of 2 ready), PodClique llm-0-c (0 of 1 ready)"].assert_eq(&of_pod("bound: true, phase: Pending"));
    expect!["MinimumReplicasUnavailable: 0 of 1 pods ready, 1 not ready"]
        .assert_eq(&of_pod("bound: true, initialized: true"));
    expect!["MinimumReplicasAvailable: 1 of 1 pods ready"].assert_eq(&of_pod("ready: true, initialized: true"));
    expect!["MinimumReplicasUnavailable: 0 of 1 pods ready, 1 not scheduled"].assert_eq(&of_pod("phase: Pending"));
}
