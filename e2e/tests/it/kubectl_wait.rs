//! Scripts wait for what Grove makes by `kubectl wait --for=condition=…`, whatever the kind.

use e2e::kubectl::kubectl;
use e2e::{Namespace, World, in_namespace, sets, shown};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// What can be waited for: the kind, an object of it, the condition.
const WAITS: [[&str; 3]; 7] = [
    ["podcliqueset", "m", "Available"],
    ["podclique", "m-0-f", "Available"],
    ["podclique", "m-0-g-2-d", "Available"],
    ["podcliquescalinggroup", "m-0-g", "Available"],
    ["podgang", "m-0", "Initialized"],
    ["podgang", "m-0", "Ready"],
    ["podgang", "m-0-g-1", "Ready"],
];

/// Those of them that do not hold while the pods of `f` are held.
const HELD: [[&str; 3]; 3] =
    [["podcliqueset", "m", "Available"], ["podclique", "m-0-f", "Available"], ["podgang", "m-0", "Ready"]];

async fn wait(ns: &Namespace, [kind, name, condition]: [&str; 3], status: &str) {
    let object = format!("{kind}/{name}");
    let timeout = format!("--timeout={}s", e2e::world::LIMIT.as_secs());
    let condition = format!("--for=condition={condition}={status}");
    for awaited in ["--for=create", &condition] {
        let arguments = ["--namespace", &ns.name, "wait", awaited, &object, &timeout];
        let answer = kubectl(&arguments, "").await;
        let said = answer.unwrap_or_else(|refusal| panic!("kubectl wait {awaited} {object}: {refusal}"));
        assert!(said.contains("condition met"), "kubectl wait {awaited} {object}: {said}");
    }
}

#[tokio::test]
async fn kubectl_wait_works_for_conditions_of_every_kind() {
    in_namespace("e2e-waits", async |ns| {
        let held = "schedulingGates: [{name: e2e.example/hold}], ";
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, held)).await;
        join_all(HELD.map(|awaited| wait(ns, awaited, "False"))).await;
        let of_f = |world: &World| {
            let pods = world.live_pods().filter(|pod| shown::hostname(pod).starts_with("m-0-f-"));
            pods.map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        let world = ns.until("the pods of f are there", |world| of_f(world).len() == 2).await;
        let released = async {
            for pod in of_f(&world) {
                ns.patch::<Pod>(&pod, json!({ "spec": { "schedulingGates": null } })).await;
            }
        };
        let waits = join_all(WAITS.map(|awaited| wait(ns, awaited, "True")));
        futures::future::join(waits, released).await;
    })
    .await;
}
