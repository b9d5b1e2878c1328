//! webhook-server repairs its certificate although the API server cannot call the authorizer meanwhile, and although a
//! foreign webhook configuration has the labels of its own.

use e2e::{Namespace, TestCluster, fixtures};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

const SECRET: &str = "grove-webhook-server-cert";
/// Its name sorts before those of Grove.
const FOREIGN: &str = "aaa.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn webhook_server_repairs_its_certificate_while_the_authorizer_is_registered() {
    let cluster = TestCluster::with_own_services("certificate-repair", &["--config", &configuration_file()]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-certificate-repair").await;
    let set = fixtures::three_cliques("llm", 1);
    ns.wait_until_admitted(&set).await;
    create_foreign_configuration(&cluster).await;

    // As an older version left the Secret: the authorizer protects it. A client without the exemption could not edit it,
    // because no webhook server runs.
    cluster.stop("webhook-server").await;
    let exempt = cluster.client_as("system:kube-controller-manager", &["system:masters"]).await;
    let labels = json!({ MANAGED_BY: GROVE_OPERATOR });
    let change = json!({ "metadata": { "labels": labels }, "data": { "tls.crt": "", "tls.key": "" } });
    let secrets = Api::<Secret>::namespaced(exempt, SYSTEM_NAMESPACE);
    secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(change)).await.expect("the Secret is emptied");
    cluster.start_again().await;
    ns.wait_until_admitted(&set).await;
    let repaired = secrets.get(SECRET).await.expect("the Secret");
    assert!(!repaired.labels().contains_key(MANAGED_BY), "the authorizer does not protect the Secret any more");

    // Without the label any administrator may delete the Secret, also while no webhook server runs.
    cluster.stop("webhook-server").await;
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    secrets.delete(SECRET, &DeleteParams::default()).await.expect("the Secret is deleted");
    cluster.start_again().await;
    ns.wait_until_admitted(&set).await;

    let configurations = Api::<ValidatingWebhookConfiguration>::all(client);
    let foreign = configurations.get(FOREIGN).await.expect("the foreign configuration");
    assert_eq!(foreign.webhooks.expect("webhooks")[0].client_config.ca_bundle, None, "it does not trust Grove's CA");
    cluster.down().await;
}

/// Another product, with the label that the configurations of webhook-server have.
async fn create_foreign_configuration(cluster: &TestCluster) {
    let rule = json!({ "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"] });
    let webhook = json!({ "name": "things.example.com", "rules": [rule], "sideEffects": "None", "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" } });
    let labels = json!({ "app.kubernetes.io/name": "webhook-server" });
    let configuration = json!({ "metadata": { "name": FOREIGN, "labels": labels }, "webhooks": [webhook] });
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration).expect("a configuration");
    let configurations = Api::all(cluster.client().await);
    configurations.create(&PostParams::default(), &configuration).await.expect("the configuration is created");
}

/// Writes the configuration outside of the cluster's folder, which does not exist yet. JSON is YAML.
fn configuration_file() -> String {
    let configuration = json!({ "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
        "authorizer": { "enabled": true } });
    let file = TestCluster::shared().dir().join("certificate-repair.yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
