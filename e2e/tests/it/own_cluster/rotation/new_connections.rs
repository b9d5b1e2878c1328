//! A client that opens a new TLS connection for each request, like a restarted API server, and trusts the CA bundle of a
//! webhook configuration. Requests on existing connections hardly use certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::TestCluster;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// A DNS name in the certificate.
pub(in crate::it::own_cluster) const NAME: &str = "webhook-server.grove-system.svc";
/// The webhook configuration that the service updates last.
const CONFIGURATION: &str = "scale-validating-webhook";

pub(super) struct NewConnections {
    stopped: Arc<AtomicBool>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl NewConnections {
    /// Starts connecting through the load balancer, which alternates between the ready replicas.
    pub(super) fn start(cluster: &TestCluster, client: &Client) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(connect_repeatedly(client.clone(), cluster.port("balancer"), Arc::clone(&stopped)));
        Self { stopped, task }
    }

    /// Stops. Returns the number of trusted connections and the errors of the untrusted ones.
    pub(super) async fn stop(self) -> (usize, Vec<String>) {
        self.stopped.store(true, Ordering::SeqCst);
        self.task.await.expect("the task ends")
    }
}

/// Connects until `stopped` is set. Returns the number of trusted connections and the errors of the untrusted ones.
async fn connect_repeatedly(client: Client, port: u16, stopped: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let (mut trusted, mut untrusted) = (0, Vec::new());
    while !stopped.load(Ordering::SeqCst) {
        let Some(result) = connect(&client, port).await else { continue };
        trusted += usize::from(result.is_ok());
        untrusted.extend(result.err());
    }
    (trusted, untrusted)
}

/// Whether the certificate is trusted. `None` if the connection failed for another reason, such as a restart, or if the CA
/// bundle changed meanwhile.
async fn connect(client: &Client, port: u16) -> Option<Result<(), String>> {
    let bundle = bundle(client).await;
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let name = ServerName::try_from(NAME).expect("a name");
    let Err(error) = connector(&bundle).connect(name, stream).await else { return Some(Ok(())) };
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let is_untrusted = matches!(error, rustls::Error::InvalidCertificate(_));
    (is_untrusted && self::bundle(client).await == bundle).then(|| Err(error.to_string()))
}

/// The CA bundle of the webhook configuration.
pub(in crate::it::own_cluster) async fn bundle(client: &Client) -> Vec<u8> {
    let all = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let one = all.get(CONFIGURATION).await.expect("the configuration");
    let webhooks = one.webhooks.unwrap_or_default();
    webhooks.into_iter().find_map(|webhook| webhook.client_config.ca_bundle).expect("a CA bundle").0
}

/// Trusts the CA bundle.
pub(in crate::it::own_cluster) fn connector(bundle: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle) {
        roots.add(ca.expect("a certificate")).expect("a CA");
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
