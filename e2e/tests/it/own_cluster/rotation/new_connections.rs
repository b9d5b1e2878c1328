//! Somebody who connects anew all the time, as an API server does that has just been started, and trusts whom a configuration
//! names at that moment: requests over connections that are there already notice little of certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::Plane;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

const NAME: &str = "webhook-server.grove-system.svc";
/// The configuration that is told last.
const CONFIGURATION: &str = "scale-validating-webhook";

pub(super) struct Newcomer {
    over: Arc<AtomicBool>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Newcomer {
    /// Begins to connect to whichever replica is ready, each in its turn.
    pub(super) fn start(plane: &Plane, client: &Client) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(connecting(client.clone(), plane.port("balancer"), Arc::clone(&over)));
        Self { over, task }
    }

    /// How often a certificate was trusted, and what was said of those that were not.
    pub(super) async fn end(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::SeqCst);
        self.task.await.expect("it ends")
    }
}

/// How often a certificate was trusted until it is over, and what was said of those that were not.
async fn connecting(client: Client, port: u16, over: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let (mut welcome, mut distrusted) = (0, Vec::new());
    while !over.load(Ordering::SeqCst) {
        let Some(answer) = connect(&client, port).await else { continue };
        welcome += usize::from(answer.is_ok());
        distrusted.extend(answer.err());
    }
    (welcome, distrusted)
}

/// Whether the certificate is trusted; nothing where the replica is being restarted, or where the configuration has changed
/// meanwhile.
async fn connect(client: &Client, port: u16) -> Option<Result<(), String>> {
    let bundle = bundle(client).await;
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let name = ServerName::try_from(NAME).expect("a name");
    let Err(error) = connector(&bundle).connect(name, stream).await else { return Some(Ok(())) };
    let said = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let is_distrust = matches!(said, rustls::Error::InvalidCertificate(_));
    (is_distrust && self::bundle(client).await == bundle).then(|| Err(said.to_string()))
}

async fn bundle(client: &Client) -> Vec<u8> {
    let all = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let one = all.get(CONFIGURATION).await.expect("the configuration");
    let webhooks = one.webhooks.unwrap_or_default();
    webhooks.into_iter().find_map(|webhook| webhook.client_config.ca_bundle).expect("somebody is trusted").0
}

fn connector(bundle: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority.expect("a certificate")).expect("an authority");
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
