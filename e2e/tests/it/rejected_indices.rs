//! A policy rejects some pods of a clique for reasons of their own: the other pods are created.

use e2e::{Namespace, in_namespace, propagation};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm}
spec:
  replicas: 1
  template:
    cliques:
    - {name: worker, spec: {roleName: worker, replicas: 20, podSpec: {containers: [{name: c, image: i}]}}}
";
const CLIQUE: &str = "llm-0-worker";
const INDEX: &str = "grove.io/podclique-pod-index";
const MESSAGE: &str = "no pod has this index";
const REJECTED_POD: &str = "
    {apiVersion: v1, kind: Pod, metadata: {name: probe, labels: {grove.io/podclique-pod-index: '0'}},
      spec: {containers: [{name: c, image: i}]}}";

/// The policy rejects the pods of the namespace with the indices 0 to 7, which are the first batch.
fn policy(ns: &Namespace) -> (Value, Value) {
    let expression = format!(
        "!has(object.metadata.labels) || !('{INDEX}' in object.metadata.labels) || int(object.metadata.labels['{INDEX}']) >= 8"
    );
    let pods = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
    let spec = json!({ "failurePolicy": "Fail", "matchConstraints": { "resourceRules": [pods] },
        "validations": [{ "expression": expression, "message": MESSAGE }] });
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name } });
    let binding = json!({ "policyName": ns.name, "validationActions": ["Deny"],
        "matchResources": { "namespaceSelector": selector } });
    let metadata = json!({ "name": ns.name });
    (json!({ "metadata": metadata, "spec": spec }), json!({ "metadata": metadata, "spec": binding }))
}

fn decoded<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("an object of the kind")
}

#[tokio::test]
async fn pods_that_a_policy_rejects_do_not_block_the_other_pods_of_their_clique() {
    in_namespace("e2e-rejected-indices", async |ns| {
        let policies = Api::<ValidatingAdmissionPolicy>::all(ns.client.clone());
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(ns.client.clone());
        let (policy, binding) = policy(ns);
        policies.create(&PostParams::default(), &decoded(policy)).await.expect("the policy is created");
        bindings.create(&PostParams::default(), &decoded(binding)).await.expect("the binding is created");
        propagation::wait_for_dry_run_create(ns, REJECTED_POD, Some(MESSAGE)).await;
        ns.create_yaml::<PodCliqueSet>(SET).await;
        ns.wait_for("the other pods exist, and the clique reports the rejection", |state| {
            let mut indices: Vec<i32> =
                state.pods.values().filter_map(|pod| pod.labels().get(INDEX)?.parse().ok()).collect();
            indices.sort_unstable();
            let status = state.cliques.get(CLIQUE).and_then(|clique| clique.status.as_ref());
            let is_reported =
                status.is_some_and(|status| status.last_errors.iter().any(|error| error.description.contains(MESSAGE)));
            is_reported && indices == (8..20).collect::<Vec<_>>()
        })
        .await;
        bindings.delete(&ns.name, &DeleteParams::default()).await.expect("the binding is deleted");
        policies.delete(&ns.name, &DeleteParams::default()).await.expect("the policy is deleted");
        ns.wait_for("all pods exist", |state| state.pods.len() == 20).await;
    })
    .await;
}
