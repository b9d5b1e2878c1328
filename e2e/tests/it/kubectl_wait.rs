//! `kubectl wait --for=condition=…` works for every kind of Grove.

use e2e::kubectl::kubectl;
use e2e::{Namespace, NamespaceState, fixtures, in_namespace, snapshot};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Kind, name and condition of the objects that kubectl waits for.
const TRUE_CONDITIONS: [[&str; 3]; 7] = [
    ["podcliqueset", "m", "Available"],
    ["podclique", "m-0-f", "Available"],
    ["podclique", "m-0-g-2-d", "Available"],
    ["podcliquescalinggroup", "m-0-g", "Available"],
    ["podgang", "m-0", "Initialized"],
    ["podgang", "m-0", "Ready"],
    ["podgang", "m-0-g-1", "Ready"],
];

/// The conditions that are false while the pods of `f` are gated.
const FALSE_WHILE_GATED: [[&str; 3]; 3] =
    [["podcliqueset", "m", "Available"], ["podclique", "m-0-f", "Available"], ["podgang", "m-0", "Ready"]];

async fn wait(ns: &Namespace, [kind, name, condition]: [&str; 3], status: &str) {
    let object = format!("{kind}/{name}");
    let timeout = format!("--timeout={}s", e2e::namespace_state::TIMEOUT.as_secs());
    let condition = format!("--for=condition={condition}={status}");
    for awaited in ["--for=create", &condition] {
        let arguments = ["--namespace", &ns.name, "wait", awaited, &object, &timeout];
        let result = kubectl(&arguments, "").await;
        let output = result.unwrap_or_else(|error| panic!("kubectl wait {awaited} {object}: {error}"));
        assert!(output.contains("condition met"), "kubectl wait {awaited} {object}: {output}");
    }
}

#[tokio::test]
async fn kubectl_wait_works_for_conditions_of_every_kind() {
    in_namespace("e2e-kubectl-wait", async |ns| {
        let gate = "schedulingGates: [{name: e2e.example/hold}], ";
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, gate)).await;
        join_all(FALSE_WHILE_GATED.map(|awaited| wait(ns, awaited, "False"))).await;
        let pods_of_f = |state: &NamespaceState| {
            let pods = state.active_pods().filter(|pod| snapshot::hostname(pod).starts_with("m-0-f-"));
            pods.map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        let state = ns.wait_for("the pods of f exist", |state| pods_of_f(state).len() == 2).await;
        let remove_gates = async {
            for pod in pods_of_f(&state) {
                ns.patch::<Pod>(&pod, json!({ "spec": { "schedulingGates": null } })).await;
            }
        };
        let waits = join_all(TRUE_CONDITIONS.map(|awaited| wait(ns, awaited, "True")));
        futures::future::join(waits, remove_gates).await;
    })
    .await;
}
