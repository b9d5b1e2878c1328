//! Certificates of another issuer, as with cert-manager: a Secret holds the certificate, the kubelet mounts the Secret, and
//! the issuer writes the CA bundle into the webhook configurations. The webhook server serves a new certificate as soon as
//! it is mounted, and a replica that issues certificates itself changes none of these objects.

mod component;

use grove_api_types::SYSTEM_NAMESPACE;
use std::path::{Path, PathBuf};

use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, TestCluster, fixtures};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAME: &str = "webhook-server.grove-system.svc";

/// A CA and a certificate that it signed, in PEM.
struct Issued {
    ca: String,
    certificate: String,
    key: String,
}

fn issue() -> Issued {
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &ca).expect("a certificate");
    Issued { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_cert_manager_are_served_and_reloaded() {
    let cluster = TestCluster::with_own_services("certificates", &[]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-certificates").await;
    let component = component::apply(&cluster).await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    let mount = cluster.dir().join("mounted");

    // A replica that issues certificates itself still runs; it must not overwrite the Secret.
    let later = cluster.audit_log().from_now();
    let first = issue();
    write_and_mount(&client, &mount, &first, 1).await;
    cluster.wait_for_log("webhook-server", "cert-manager manages the Secret").await;
    write_ca_bundle(&client, &first.ca).await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    let second = issue();
    write_and_mount(&client, &mount, &second, 2).await;
    write_ca_bundle(&client, &second.ca).await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    assert_secret(&client, &second).await;
    let writes = later.writes();
    assert_eq!(writes, [] as [String; 0], "only cert-manager writes");

    let config = cluster.dir().join("mounted.yaml");
    let text = json!({ "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
        "server": { "webhooks": { "serverCertDir": mount.display().to_string() } } });
    std::fs::write(&config, text.to_string()).expect("the configuration is written");
    let mut server = ServiceReplica::take_over(&cluster, "webhook-server", &[]).await;
    server.set_flag("--config", &config.display().to_string());
    server.add_flag(&component.flag);
    server.restart().await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;

    // cert-manager replaces the Secret and the CA bundle; the kubelet mounts the new Secret later.
    let third = issue();
    write_ca_bundle(&client, &[second.ca, third.ca.clone()].concat()).await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    write_and_mount(&client, &mount, &third, 3).await;
    write_ca_bundle(&client, &third.ca).await;
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    assert_secret(&client, &third).await;
    drop(server);
    cluster.down().await;
}

/// Asserts that the Secret is as cert-manager wrote it.
async fn assert_secret(client: &Client, issued: &Issued) {
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let data = secrets.get("grove-webhook-server-cert").await.expect("the Secret").data.unwrap_or_default();
    assert_eq!(data["tls.crt"].0, issued.certificate.as_bytes(), "the certificate of cert-manager");
    assert_eq!(data["ca.crt"].0, issued.ca.as_bytes(), "the CA of cert-manager");
}

/// Writes the Secret as cert-manager does, and mounts it as the kubelet does.
async fn write_and_mount(client: &Client, mount: &Path, issued: &Issued, version: u32) {
    let Issued { ca, certificate, key } = issued;
    let data = [("ca.crt", ca), ("tls.crt", certificate), ("tls.key", key)];
    let bytes = data.map(|(name, text)| (name.to_owned(), json!(ByteString(text.clone().into_bytes()))));
    let annotations = json!({ "cert-manager.io/certificate-name": "webhook-server", "cert-manager.io/issuer-name": "webhook-server",
        "cert-manager.io/issuer-kind": "Issuer", "cert-manager.io/issuer-group": "" });
    let metadata = json!({ "annotations": annotations, "labels": { "controller.cert-manager.io/fao": "true" } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata,
        "data": serde_json::Map::from_iter(bytes) });
    let secrets = Api::<Secret>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let params = PatchParams::apply("cert-manager-certificates-issuing").force();
    secrets.patch("grove-webhook-server-cert", &params, &Patch::Apply(secret)).await.expect("the Secret is written");

    let folder: PathBuf = mount.join(format!("..version-{version}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in data {
        std::fs::write(folder.join(name), text).expect("a file");
        let _ = std::os::unix::fs::symlink(format!("..data/{name}"), mount.join(name));
    }
    let fresh = mount.join("..data_tmp");
    std::os::unix::fs::symlink(folder.file_name().expect("a name"), &fresh).expect("a link");
    std::fs::rename(fresh, mount.join("..data")).expect("the link is replaced");
}

/// Writes the CA bundle into the webhook configurations, as cert-manager does for its annotation.
async fn write_ca_bundle(client: &Client, bundle: &str) {
    write_ca_bundle_of::<MutatingWebhookConfiguration>(client, bundle).await;
    write_ca_bundle_of::<ValidatingWebhookConfiguration>(client, bundle).await;
}

async fn write_ca_bundle_of<K>(client: &Client, bundle: &str)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/name=webhook-server");
    let bundle = ByteString(bundle.as_bytes().to_vec());
    for one in all.list(&ours).await.expect("the configurations").items {
        let value = serde_json::to_value(&one).expect("JSON");
        let webhooks = value["webhooks"].as_array().cloned().unwrap_or_default();
        let webhook = |webhook: &Value| json!({ "name": webhook["name"], "clientConfig": { "caBundle": bundle } });
        let change = json!({ "webhooks": webhooks.iter().map(webhook).collect::<Vec<_>>() });
        all.patch(&one.name_any(), &PatchParams::default(), &Patch::Strategic(change))
            .await
            .expect("the CA bundle is written");
    }
}
