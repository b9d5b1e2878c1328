//! The admission policies in the base of webhook-server: its account cannot extend its own permissions.

use e2e::TestCluster;
use e2e::poll::poll_until;
use grove_api_types::{SERVICE_USER_PREFIX, SYSTEM_NAMESPACE};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const CONFIGURATION: &str = "scale-validating-webhook";
const WEBHOOK: &str = "scale.validating.webhooks.grove.io";
const ONLY_CA_BUNDLE: &str = "webhook-server may change only the caBundle of its webhook configurations";
const NO_METADATA: &str = "webhook-server may not change the metadata of its webhook configurations";
const ONLY_ITS_SECRET: &str =
    "webhook-server may create and change only the Secret grove-webhook-server-cert of type kubernetes.io/tls";

async fn account_of_webhook_server() -> Client {
    TestCluster::shared().client_as(&format!("{SERVICE_USER_PREFIX}webhook-server"), &[]).await
}

/// Sends the request until the API server denies it with this text. It enforces a policy a moment after it stored it.
pub(super) async fn wait_until_denied<T>(text: &str, send: impl AsyncFn() -> Result<T, kube::Error>) {
    poll_until(async || send().await.err().filter(|error| error.to_string().contains(text))).await;
}

/// A dry-run patch of the webhook configuration by the account of webhook-server.
async fn patch(client: &Client, change: &Value) -> Result<ValidatingWebhookConfiguration, kube::Error> {
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    Api::all(client.clone()).patch(CONFIGURATION, &dry, &Patch::Strategic(change)).await
}

#[tokio::test]
async fn webhook_server_may_change_only_the_ca_bundle_of_its_webhook_configurations() {
    let client = account_of_webhook_server().await;
    let rules =
        json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"] }]);
    for fields in [
        json!({ "rules": rules }),
        json!({ "failurePolicy": "Ignore" }),
        json!({ "matchPolicy": "Exact" }),
        json!({ "matchConditions": [{ "name": "replicas-changed", "expression": "true" }] }),
        json!({ "namespaceSelector": { "matchLabels": { "a": "b" } } }),
        json!({ "objectSelector": { "matchLabels": { "a": "b" } } }),
        json!({ "timeoutSeconds": 1 }),
        json!({ "clientConfig": { "service": { "path": "/other" } } }),
        json!({ "clientConfig": { "service": null, "url": "https://example.com/" } }),
        json!({ "name": "other.webhooks.grove.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://example.com/" } }),
    ] {
        let mut webhook = json!({ "name": WEBHOOK });
        webhook.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        let change = json!({ "webhooks": [webhook] });
        wait_until_denied(ONLY_CA_BUNDLE, async || patch(&client, &change).await).await;
    }
    let annotations = json!({ "cert-manager.io/inject-ca-from": "team/other" });
    for metadata in [json!({ "annotations": annotations }), json!({ "labels": { "a": "b" } })] {
        let change = json!({ "metadata": metadata });
        wait_until_denied(NO_METADATA, async || patch(&client, &change).await).await;
    }

    let admin = TestCluster::shared().client().await;
    let stored = Api::<ValidatingWebhookConfiguration>::all(admin).get(CONFIGURATION).await.expect("the configuration");
    let mut bundle = stored.webhooks.expect("webhooks")[0].client_config.ca_bundle.clone().expect("a CA bundle");
    bundle.0.extend(bundle.0.clone());
    let change = json!({ "webhooks": [{ "name": WEBHOOK, "clientConfig": { "caBundle": bundle } }] });
    patch(&client, &change).await.expect("the CA bundle may change");
}

#[tokio::test]
async fn webhook_server_may_create_only_its_own_secret() {
    let client = account_of_webhook_server().await;
    let secrets = Api::<Secret>::namespaced(client, SYSTEM_NAMESPACE);
    let create = async |name: &str, kind: &str| {
        let annotations = json!({ "kubernetes.io/service-account.name": "pclq-controller" });
        let data = json!({ "tls.crt": "", "tls.key": "" });
        let secret = json!({ "metadata": { "name": name, "annotations": annotations }, "type": kind, "data": data });
        let secret = serde_json::from_value(secret).expect("a Secret");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        secrets.create(&dry, &secret).await
    };
    let token = "kubernetes.io/service-account-token";
    for (name, kind) in [("other", "kubernetes.io/tls"), ("grove-webhook-server-cert", token), ("other", token)] {
        wait_until_denied(ONLY_ITS_SECRET, async || create(name, kind).await).await;
    }
    let own = create("grove-webhook-server-cert", "kubernetes.io/tls").await;
    let error = own.expect_err("the Secret exists").to_string();
    assert!(error.contains("already exists"), "{error}");
}
