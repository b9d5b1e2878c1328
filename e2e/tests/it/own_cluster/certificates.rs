//! The certificate comes from somebody else, as cert-manager does it: it lies in a Secret, the kubelet mounts that, and the
//! authority is written into the configurations. A new one is served from the moment it is there, and a replica that makes
//! its own certificates leaves all of that alone.

mod component;

use std::path::{Path, PathBuf};

use e2e::replicas::Replica;
use e2e::{Namespace, Plane, audit, sets};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAME: &str = "webhook-server.grove-system.svc";

/// An authority and a certificate that it vouches for, as PEM.
struct Issued {
    authority: String,
    certificate: String,
    key: String,
}

fn issue() -> Issued {
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    Issued { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_cert_manager_are_served_and_reloaded() {
    let plane = Plane::own("certificates").await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-certificates").await;
    let component = component::applied(&plane).await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    let mount = plane.dir().join("mounted");

    // A replica that makes certificates itself is there still; it gives way, and does not write over anything.
    let mark = audit::mark(plane.dir());
    let first = issue();
    issued(&client, &mount, &first, 1).await;
    trust(&client, &first.authority).await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    let second = issue();
    issued(&client, &mount, &second, 2).await;
    trust(&client, &second.authority).await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    holds(&client, &second).await;
    plane.until_logged("webhook-server", "cert-manager manages the Secret").await;
    let writes = audit::writes_since(plane.dir(), mark);
    assert_eq!(writes, [] as [String; 0], "everything is left to cert-manager");

    let config = plane.dir().join("mounted.yaml");
    let text = json!({ "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
        "server": { "webhooks": { "serverCertDir": mount.display().to_string() } } });
    std::fs::write(&config, text.to_string()).expect("the configuration is written");
    let mut server = Replica::take_over(&plane, "webhook-server", &[]).await;
    server.set("--config", &config.display().to_string());
    server.add(&component.flag);
    server.restart().await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;

    // cert-manager replaces both; the kubelet is the slower of the two.
    let third = issue();
    trust(&client, &[second.authority, third.authority.clone()].concat()).await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    issued(&client, &mount, &third, 3).await;
    trust(&client, &third.authority).await;
    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    holds(&client, &third).await;
    drop(server);
    plane.down().await;
}

/// The Secret is as cert-manager wrote it.
async fn holds(client: &Client, issued: &Issued) {
    let secrets = Api::<Secret>::namespaced(client.clone(), "grove-system");
    let kept = secrets.get("grove-webhook-server-cert").await.expect("it is there").data.unwrap_or_default();
    assert_eq!(kept["tls.crt"].0, issued.certificate.as_bytes(), "it is left to who made it");
    assert_eq!(kept["ca.crt"].0, issued.authority.as_bytes(), "it is left to who made it");
}

/// Writes the Secret as cert-manager does, and mounts it as the kubelet does.
async fn issued(client: &Client, mount: &Path, issued: &Issued, version: u32) {
    let Issued { authority, certificate, key } = issued;
    let data = [("ca.crt", authority), ("tls.crt", certificate), ("tls.key", key)];
    let bytes = data.map(|(name, text)| (name.to_owned(), json!(ByteString(text.clone().into_bytes()))));
    let annotations = json!({ "cert-manager.io/certificate-name": "webhook-server", "cert-manager.io/issuer-name": "webhook-server",
        "cert-manager.io/issuer-kind": "Issuer", "cert-manager.io/issuer-group": "" });
    let metadata = json!({ "annotations": annotations, "labels": { "controller.cert-manager.io/fao": "true" } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata,
        "data": serde_json::Map::from_iter(bytes) });
    let secrets = Api::<Secret>::namespaced(client.clone(), "grove-system");
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
    std::fs::rename(fresh, mount.join("..data")).expect("the link is exchanged");
}

/// Writes the authorities into the configurations, as cert-manager does where it is asked to by an annotation.
async fn trust(client: &Client, authorities: &str) {
    trusted::<MutatingWebhookConfiguration>(client, authorities).await;
    trusted::<ValidatingWebhookConfiguration>(client, authorities).await;
}

async fn trusted<K>(client: &Client, authorities: &str)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/name=webhook-server");
    let bundle = ByteString(authorities.as_bytes().to_vec());
    for one in all.list(&ours).await.expect("the configurations").items {
        let value = serde_json::to_value(&one).expect("JSON");
        let webhooks = value["webhooks"].as_array().cloned().unwrap_or_default();
        let webhook = |webhook: &Value| json!({ "name": webhook["name"], "clientConfig": { "caBundle": bundle } });
        let change = json!({ "webhooks": webhooks.iter().map(webhook).collect::<Vec<_>>() });
        all.patch(&one.name_any(), &PatchParams::default(), &Patch::Strategic(change)).await.expect("it is written");
    }
}
