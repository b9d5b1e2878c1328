//! The component for cert-manager, rendered over its base as users do it, and applied as far as possible to a dev cluster,
//! where webhook-server is a local process.

use e2e::kubectl::kubectl_on;
use e2e::kustomize::{RenderedManifests, differences, overlay, render};
use e2e::{TestCluster, propagation};
use expect_test::expect;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::json;

/// The parts of the component that a local process needs.
pub(super) struct Component {
    /// The additional flag of webhook-server.
    pub(super) flag: String,
}

pub(super) async fn apply(cluster: &TestCluster) -> Component {
    let folder = overlay(cluster, "webhook-server", &["authorizer", "cert-manager"]);
    let (plain, with_component) =
        (render(cluster, &overlay(cluster, "webhook-server", &[])).await, render(cluster, &folder).await);
    let changes = differences(&plain, &with_component);
    expect![[r#"
        Certificate/webhook-server is added
        Deployment/webhook-server.spec.template.spec.containers[0].args[6]: "--cert-provision-mode=manual"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[0].mountPath: "/etc/grove-operator/webhook-certs"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[0].name: "certificate"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[1]: {"mountPath":"/etc/grove","name":"configuration","readOnly":true}
        Deployment/webhook-server.spec.template.spec.volumes[0].configMap is removed
        Deployment/webhook-server.spec.template.spec.volumes[0].name: "certificate"
        Deployment/webhook-server.spec.template.spec.volumes[0].secret: {"secretName":"grove-webhook-server-cert"}
        Deployment/webhook-server.spec.template.spec.volumes[1]: {"configMap":{"name":"grove-operator-configuration"},"name":"configuration"}
        Issuer/webhook-server is added
        MutatingWebhookConfiguration/clustertopology-defaulting-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        MutatingWebhookConfiguration/podcliqueset-defaulting-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/authorizer-webhook is added
        ValidatingWebhookConfiguration/claim-templates-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/clustertopology-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/podcliqueset-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/scale-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}"#]].assert_eq(&changes.join("\n"));
    assert_consistent(&with_component);

    create_crds(cluster).await;
    propagation::wait_for_kinds(cluster, &["issuers.cert-manager.io", "certificates.cert-manager.io"]).await;
    let folder = folder.display().to_string();
    run(cluster, &["apply", "--dry-run=server", "-k", &folder], "").await;
    for (name, object) in &with_component {
        if name.starts_with("Issuer/") || name.starts_with("Certificate/") {
            run(cluster, &["apply", "-f", "-"], &object.to_string()).await;
        }
        // On a dev cluster the webhook configurations call this machine, and this cluster has no authorizer: patch only
        // annotations.
        if name.contains("WebhookConfiguration/") && !name.contains("authorizer") {
            let annotations = &object["metadata"]["annotations"];
            let patch = json!({ "metadata": { "annotations": annotations } }).to_string();
            run(cluster, &["patch", name, "--type=merge", "-p", &patch], "").await;
        }
    }
    let flags =
        with_component["Deployment/webhook-server"]["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let mut flags = flags.into_iter().flatten().filter_map(|flag| flag.as_str());
    Component { flag: flags.find(|flag| flag.contains("cert")).expect("a flag about certificates").to_owned() }
}

/// The Certificate, the Deployment and the webhook configurations agree on the Secret, its mount and the DNS names.
fn assert_consistent(rendered: &RenderedManifests) {
    let certificate = &rendered["Certificate/webhook-server"]["spec"];
    let pod = &rendered["Deployment/webhook-server"]["spec"]["template"]["spec"];
    let defaults = grove_api_types::configuration::OperatorConfiguration::default().server.webhooks;
    let secret = json!({ "name": "certificate", "secret": { "secretName": certificate["secretName"] } });
    let mount = json!({ "name": "certificate", "mountPath": defaults.server_cert_dir, "readOnly": true });
    assert!(pod["volumes"].as_array().is_some_and(|volumes| volumes.contains(&secret)), "{pod}");
    assert!(pod["containers"][0]["volumeMounts"].as_array().is_some_and(|mounts| mounts.contains(&mount)), "{pod}");
    assert_eq!(certificate["secretName"], json!(defaults.secret_name));
    let names = certificate["dnsNames"].as_array().expect("names");
    for (name, object) in rendered.iter().filter(|(name, _)| name.contains("WebhookConfiguration/")) {
        let service = &object["webhooks"][0]["clientConfig"]["service"];
        let annotation = &object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*annotation, json!("grove-system/webhook-server"), "{name}");
        let called = format!(
            "{}.{}.svc",
            service["name"].as_str().expect("a name"),
            service["namespace"].as_str().expect("a namespace")
        );
        assert!(names.contains(&json!(called)), "{name} calls {called}, but the certificate is for {names:?}");
    }
    assert_eq!(certificate["issuerRef"]["name"], rendered["Issuer/webhook-server"]["metadata"]["name"]);
}

/// Creates CRDs for the kinds of cert-manager, with the fields that matter here.
async fn create_crds(cluster: &TestCluster) {
    let definitions = Api::<CustomResourceDefinition>::all(cluster.client().await);
    for (kind, plural) in [("Issuer", "issuers"), ("Certificate", "certificates")] {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
        let definition = json!({ "metadata": { "name": format!("{plural}.cert-manager.io") },
            "spec": { "group": "cert-manager.io", "scope": "Namespaced", "versions": [version],
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() } } });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
        definitions.create(&PostParams::default(), &definition).await.expect("the CRD is created");
        let established = conditions::is_crd_established();
        await_condition(definitions.clone(), &definition.name_any(), established)
            .await
            .expect("the CRD is established");
    }
}

async fn run(cluster: &TestCluster, arguments: &[&str], input: &str) {
    kubectl_on(cluster, arguments, input).await.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"));
}
