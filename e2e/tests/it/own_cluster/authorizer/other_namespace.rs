//! Grove in another namespace, as Kustomize renders it: the policies limit the accounts there, and the authorizer exempts them, also while no
//! webhook server runs.

use e2e::TestCluster;
use e2e::kubectl::kubectl_on;
use e2e::kustomize::{RenderedManifests, overlay_in, render};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::it::account_policy::wait_until_denied;

const NAMESPACE: &str = "team-x";
const BASES: [&str; 6] =
    ["common", "pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"];
const COMPONENTS: [&str; 9] = [
    "compute-domain-state",
    "controller-policy",
    "authorizer",
    "network-policy",
    "default-scheduler",
    "kai-scheduler",
    "volcano",
    "cert-manager",
    "admission-policy",
];
/// The kinds that decide about the requests of the accounts.
const APPLIED: [&str; 5] = [
    "Namespace",
    "ServiceAccount",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

pub(super) async fn accounts_are_limited_and_exempt(cluster: &TestCluster) {
    let rendered = render(cluster, &overlay_in(cluster, NAMESPACE, &BASES, &COMPONENTS)).await;
    let left: Vec<_> = rendered.iter().filter(|(_, object)| object.to_string().contains("grove-system")).collect();
    assert!(left.is_empty(), "objects with the name of the other namespace: {left:#?}");
    apply(cluster, &rendered).await;
    policies_limit_the_accounts(cluster).await;
    the_authorizer_exempts_the_accounts(cluster).await;
}

async fn apply(cluster: &TestCluster, rendered: &RenderedManifests) {
    let is_applied = |object: &&Value| APPLIED.iter().any(|kind| object["kind"] == *kind);
    let items: Vec<_> = rendered.values().filter(is_applied).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    run(cluster, &["apply", "--server-side", "--force-conflicts", "-f", "-"], &list).await;
    // On a dev cluster the webhook configuration calls this machine: replace only the conditions.
    let conditions = &rendered["ValidatingWebhookConfiguration/authorizer-webhook"]["webhooks"][0]["matchConditions"];
    let change = json!([{ "op": "replace", "path": "/webhooks/0/matchConditions", "value": conditions }]).to_string();
    let configuration = "validatingwebhookconfiguration/authorizer-webhook";
    run(cluster, &["patch", configuration, "--type=json", "-p", &change], "").await;
}

async fn policies_limit_the_accounts(cluster: &TestCluster) {
    let services = services_of(cluster, NAMESPACE).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let create = async |metadata: Value| {
        let service = json!({ "metadata": metadata, "spec": { "clusterIP": "None", "selector": { "a": "b" } } });
        services.create(&dry, &serde_json::from_value(service).expect("a Service")).await
    };
    let denied = "pcs-controller may create only managed objects with a controller of the API group grove.io";
    wait_until_denied(denied, async || create(json!({ "name": "other" })).await).await;
    let owner =
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "Owner", "name": "a", "uid": "b", "controller": true });
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator" });
    let managed = json!({ "name": "managed", "labels": labels, "ownerReferences": [owner] });
    create(managed).await.expect("the policy allows a managed object");

    let client = cluster.client_as(&account(NAMESPACE, "webhook-server"), &[]).await;
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client);
    let change = json!({ "webhooks": [{ "name": "scale.validating.webhooks.grove.io", "timeoutSeconds": 1 }] });
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let denied = "webhook-server may change only the caBundle of its webhook configurations";
    let patch =
        async || configurations.patch("scale-validating-webhook", &dry, &Patch::Strategic(change.clone())).await;
    wait_until_denied(denied, patch).await;
}

/// The test before this one left a managed Service, and stopped the webhook server.
async fn the_authorizer_exempts_the_accounts(cluster: &TestCluster) {
    let change = Patch::Merge(json!({ "metadata": { "annotations": { "a": "b" } } }));
    let patch = async |services: &Api<Service>| {
        services.patch("webhook-outage", &PatchParams { dry_run: true, ..PatchParams::default() }, &change).await
    };
    let admin = Api::<Service>::namespaced(cluster.client().await, "default");
    wait_until_denied("failed calling webhook", async || patch(&admin).await).await;
    let services = services_of(cluster, NAMESPACE).await;
    e2e::poll::poll_until(async || patch(&services).await.ok()).await;
}

/// The Services of the namespace `default`, for pcs-controller of a namespace.
async fn services_of(cluster: &TestCluster, namespace: &str) -> Api<Service> {
    Api::namespaced(cluster.client_as(&account(namespace, "pcs-controller"), &[]).await, "default")
}

fn account(namespace: &str, service: &str) -> String {
    format!("system:serviceaccount:{namespace}:{service}")
}

async fn run(cluster: &TestCluster, arguments: &[&str], input: &str) {
    kubectl_on(cluster, arguments, input).await.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"));
}
