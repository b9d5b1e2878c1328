//! How batches of traces reach the collector: over the HTTP and TLS that the service has already, told once when they do
//! not.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::{ClientConfig, RootCertStore};
use tokio::{runtime::Handle, time::timeout};

use super::error_chain;

/// A collector has little to say.
const LONGEST_ANSWER: usize = 1 << 16;

/// Sends on the service's own runtime, though the batches come from a thread that has none.
pub(super) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    patience: Duration,
    is_away: AtomicBool,
}

impl Transport {
    /// To a collector at `endpoint`. Needs a tokio runtime.
    pub(super) fn new(endpoint: &str, patience: Duration) -> std::io::Result<Self> {
        let connector = HttpsConnectorBuilder::new();
        let connector = if endpoint.starts_with("https:") {
            connector.with_native_roots()?
        } else {
            // The certificates of all authorities take more memory than anything else here.
            let trusting_nobody = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            connector.with_tls_config(trusting_nobody.with_no_client_auth())
        };
        let client = Client::builder(TokioExecutor::new()).build(connector.https_or_http().enable_http1().build());
        Ok(Self { client, runtime: Handle::current(), patience, is_away: AtomicBool::new(false) })
    }

    /// Warns when it begins that traces are lost, and says when it ends.
    fn tell(&self, endpoint: &str, trouble: Option<&str>) {
        let was_away = self.is_away.swap(trouble.is_some(), Ordering::Relaxed);
        match trouble {
            Some(trouble) if !was_away => warn(endpoint, trouble),
            None if was_away => tracing::info!(endpoint, "the collector takes traces again"),
            Some(_) | None => {}
        }
    }
}

fn warn(endpoint: &str, trouble: &str) {
    tracing::warn!(endpoint, "traces are lost, the collector cannot be used: {trouble}");
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, patience, endpoint) = (self.client.clone(), self.patience, request.uri().to_string());
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let exchanged = self.runtime.spawn(async move { timeout(patience, exchange).await }).await;
        // The runtime is gone: the process ends.
        let exchanged = exchanged?.unwrap_or_else(|_| Err(format!("no answer within {patience:?}").into()));
        match &exchanged {
            Ok(answer) if answer.status().is_success() => self.tell(&endpoint, None),
            Ok(answer) => self.tell(&endpoint, Some(&format!("it answers {}", answer.status()))),
            Err(error) => self.tell(&endpoint, Some(&error_chain(error.as_ref()))),
        }
        exchanged
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("is_away", &self.is_away).finish_non_exhaustive()
    }
}
