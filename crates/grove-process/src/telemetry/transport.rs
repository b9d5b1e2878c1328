//! The HTTP client that sends batches of traces to the collector. It logs each reason of an outage of the collector once.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;

use crate::{api_error::error_chain, failure_log::FailureLog};

/// Sends each request on the runtime of the service, because the batch thread of the SDK has no tokio runtime.
#[derive(Debug)]
pub(super) struct Transport {
    client: Arc<dyn HttpClient>,
    runtime: Handle,
    failures: Mutex<FailureLog>,
}

impl Transport {
    /// The transport to the collector at `endpoint`. Needs a tokio runtime.
    pub(super) fn new(endpoint: &str, timeout: Duration) -> io::Result<Self> {
        let connector = HttpsConnectorBuilder::new();
        let connector = if endpoint.starts_with("https:") {
            connector.with_native_roots()?
        } else {
            // The root certificates of the system would take more memory than the rest of the transport.
            let without_roots = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            connector.with_tls_config(without_roots.with_no_client_auth())
        };
        let client = HyperClient::new(connector.https_or_http().enable_http1().build(), timeout, None);
        Ok(Self { client: Arc::new(client), runtime: Handle::current(), failures: Mutex::default() })
    }

    fn report(&self, endpoint: &str, error: Option<&str>) {
        let mut failures = self.failures.lock();
        match error {
            Some(error) if failures.should_log_failure(error) => log_outage(endpoint, error),
            None if failures.should_log_recovery() => tracing::info!(endpoint, "the collector accepts traces again"),
            Some(_) | None => {}
        }
    }
}

fn log_outage(endpoint: &str, error: &str) {
    tracing::warn!(endpoint, "traces are lost because the collector does not accept them: {error}");
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, endpoint) = (Arc::clone(&self.client), request.uri().to_string());
        let sending = self.runtime.spawn(async move { client.send_bytes(request).await });
        // The runtime cancels the task only when the process ends.
        let result = sending.await?;
        match &result {
            Ok(response) if response.status().is_success() => self.report(&endpoint, None),
            Ok(response) => self.report(&endpoint, Some(&format!("the response is {}", response.status()))),
            Err(error) => self.report(&endpoint, Some(&error_chain(error.as_ref()))),
        }
        result
    }
}
