//! The component for cert-manager, rendered over its base as users do it, and as far applied as processes of this machine can
//! follow.

use e2e::kubectl::kubectl_on;
use e2e::kustomize::{Rendered, differences, overlay, rendered};
use e2e::{Plane, taken_up};
use expect_test::expect;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::json;

/// What the component says, as far as a process needs it.
pub(super) struct Component {
    /// The flag that it gives to webhook-server.
    pub(super) flag: String,
}

pub(super) async fn applied(plane: &Plane) -> Component {
    let folder = overlay(plane, "webhook-server", &["authorizer", "cert-manager"]);
    let (plain, whole) =
        (rendered(plane, &overlay(plane, "webhook-server", &[])).await, rendered(plane, &folder).await);
    let told = differences(&plain, &whole);
    expect![[r#"
        Certificate/webhook-server is added
        Deployment/webhook-server.spec.template.spec.containers[0].args[6]: "--cert-provision-mode=manual"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[0].mountPath: "/etc/grove-operator/webhook-certs"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[0].name: "certificate"
        Deployment/webhook-server.spec.template.spec.containers[0].volumeMounts[1]: {"mountPath":"/etc/grove","name":"configuration","readOnly":true}
        Deployment/webhook-server.spec.template.spec.volumes[0].configMap is gone
        Deployment/webhook-server.spec.template.spec.volumes[0].name: "certificate"
        Deployment/webhook-server.spec.template.spec.volumes[0].secret: {"secretName":"grove-webhook-server-cert"}
        Deployment/webhook-server.spec.template.spec.volumes[1]: {"configMap":{"name":"grove-operator-configuration"},"name":"configuration"}
        Issuer/webhook-server is added
        MutatingWebhookConfiguration/clustertopology-defaulting-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        MutatingWebhookConfiguration/podcliqueset-defaulting-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/authorizer-webhook is added
        ValidatingWebhookConfiguration/clustertopology-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/podcliqueset-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}
        ValidatingWebhookConfiguration/scale-validating-webhook.metadata.annotations: {"cert-manager.io/inject-ca-from":"grove-system/webhook-server"}"#]].assert_eq(&told.join("\n"));
    its_parts_fit(&whole);

    define(plane).await;
    taken_up::kinds(plane, &["issuers.cert-manager.io", "certificates.cert-manager.io"]).await;
    let folder = folder.display().to_string();
    run(plane, &["apply", "--dry-run=server", "-k", &folder], "").await;
    for (name, object) in &whole {
        if name.starts_with("Issuer/") || name.starts_with("Certificate/") {
            run(plane, &["apply", "-f", "-"], &object.to_string()).await;
        }
        // On a plane the rest of a configuration leads to this machine, and nothing is protected on this one.
        if name.contains("WebhookConfiguration/") && !name.contains("authorizer") {
            let annotations = &object["metadata"]["annotations"];
            let patch = json!({ "metadata": { "annotations": annotations } }).to_string();
            run(plane, &["patch", name, "--type=merge", "-p", &patch], "").await;
        }
    }
    let flags = whole["Deployment/webhook-server"]["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let mut flags = flags.into_iter().flatten().filter_map(|flag| flag.as_str());
    Component { flag: flags.find(|flag| flag.contains("cert")).expect("a flag about certificates").to_owned() }
}

/// One Secret, mounted where it is read, for the names that the API server calls.
fn its_parts_fit(whole: &Rendered) {
    let certificate = &whole["Certificate/webhook-server"]["spec"];
    let pod = &whole["Deployment/webhook-server"]["spec"]["template"]["spec"];
    let read = grove_api_types::configuration::OperatorConfiguration::default().server.webhooks;
    let secret = json!({ "name": "certificate", "secret": { "secretName": certificate["secretName"] } });
    let mount = json!({ "name": "certificate", "mountPath": read.server_cert_dir, "readOnly": true });
    assert!(pod["volumes"].as_array().is_some_and(|volumes| volumes.contains(&secret)), "{pod}");
    assert!(pod["containers"][0]["volumeMounts"].as_array().is_some_and(|mounts| mounts.contains(&mount)), "{pod}");
    assert_eq!(certificate["secretName"], json!(read.secret_name));
    let names = certificate["dnsNames"].as_array().expect("names");
    for (name, object) in whole.iter().filter(|(name, _)| name.contains("WebhookConfiguration/")) {
        let service = &object["webhooks"][0]["clientConfig"]["service"];
        let asks = &object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(*asks, json!("grove-system/webhook-server"), "{name}");
        let called = format!(
            "{}.{}.svc",
            service["name"].as_str().expect("a name"),
            service["namespace"].as_str().expect("a namespace")
        );
        assert!(names.contains(&json!(called)), "{name} calls {called}, and the certificate is for {names:?}");
    }
    assert_eq!(certificate["issuerRef"]["name"], whole["Issuer/webhook-server"]["metadata"]["name"]);
}

/// cert-manager's kinds, as far as they matter here.
async fn define(plane: &Plane) {
    let definitions = Api::<CustomResourceDefinition>::all(plane.client().await);
    for (kind, plural) in [("Issuer", "issuers"), ("Certificate", "certificates")] {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
        let definition = json!({ "metadata": { "name": format!("{plural}.cert-manager.io") },
            "spec": { "group": "cert-manager.io", "scope": "Namespaced", "versions": [version],
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() } } });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
        definitions.create(&PostParams::default(), &definition).await.expect("it is defined");
        let established = conditions::is_crd_established();
        await_condition(definitions.clone(), &definition.name_any(), established).await.expect("it is served");
    }
}

async fn run(plane: &Plane, arguments: &[&str], input: &str) {
    kubectl_on(plane, arguments, input).await.unwrap_or_else(|words| panic!("kubectl {arguments:?}: {words}"));
}
