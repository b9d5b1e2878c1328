//! Clients of the API server, from a kubeconfig or the service account of the pod, and the time limit of a request. The clients do
//! not retry by themselves.

use std::{future::Future, path::Path, time::Duration};

use anyhow::Context;
use axum::http::{HeaderValue, header::USER_AGENT};
use grove_api_types::configuration::RateLimit;
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::timeout;
use tower::{
    layer::util::Identity,
    util::{Either, option_layer},
};

use grove_api_types::SYSTEM_NAMESPACE;

use crate::api_error::RequestTimeout;
use crate::token_bucket::RequestLimitLayer;

/// The time limit of a single request. A later observation shows whether the request was carried out.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that transfers no byte for this long is dead. Watches have no such limit.
const READ_WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The two clients of a service. Each has its own connections, so watches never wait behind writes.
#[derive(Clone)]
pub struct Clients {
    /// For single requests.
    pub requests: Client,
    /// For lists and watches.
    pub watches: Client,
}

/// The connection of a service to its cluster.
pub struct Connection {
    /// The clients for requests and watches.
    pub clients: Clients,
    /// The configuration of the client for the Lease. That client shares no connection, no rate limit and no thread with the others,
    /// because a late renewal ends the leadership.
    pub lease_config: Config,
    /// The URL of the API server.
    pub server: String,
    /// The namespace of the service. A process outside of a cluster has the namespace `grove-system`.
    pub namespace: String,
}

/// The result of `request`, or an error of the client if it got no answer within `limit`.
///
/// # Errors
/// The error of the request, or the timeout. [`ApiError`](crate::api_error::ApiError) contains the limit.
pub async fn with_timeout<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    timeout(limit, request).await.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(RequestTimeout(limit)))))
}

/// Installs ring as the cryptography provider of the process. Call it before the first use of TLS.
pub fn install_crypto_provider() {
    // An error means that the process already has a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Creates the clients from the kubeconfig, or from the service account of the pod, without sending a request. `user_agent`
/// identifies the process in the logs of the API server.
///
/// # Errors
/// The kubeconfig cannot be used, or the process runs outside of a pod without a kubeconfig.
pub async fn connect(
    kubeconfig: Option<&Path>,
    user_agent: &str,
    rate: Option<RateLimit>,
) -> anyhow::Result<Connection> {
    let config = client_config(kubeconfig, user_agent).await?;
    let namespace = match kubeconfig {
        Some(_) => SYSTEM_NAMESPACE.to_owned(),
        None => config.default_namespace.clone(),
    };
    let server = config.cluster_url.to_string();
    let mut watching = config.clone();
    watching.read_timeout = None;
    let lease_config = watching.clone();
    let requests = ClientBuilder::try_from(config).context("could not create the client")?;
    let requests = requests.with_layer(&rate_limit(rate)).build();
    let watches = Client::try_from(watching).context("could not create the client for watches")?;
    Ok(Connection { clients: Clients { requests, watches }, lease_config, server, namespace })
}

async fn client_config(kubeconfig: Option<&Path>, user_agent: &str) -> anyhow::Result<Config> {
    let mut config = match kubeconfig {
        None => Config::incluster().context("the process does not run in a pod; set --kubeconfig FILE")?,
        Some(file) => from_file(file).await.with_context(|| format!("could not use kubeconfig {}", file.display()))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_WRITE_TIMEOUT);
    config.write_timeout = Some(READ_WRITE_TIMEOUT);
    // Otherwise the idle time in the connection pool counts towards the read timeout of the next request.
    config.reset_reader_on_write = true;
    // kube's retries would hide an overloaded server for minutes. The controllers retry with their own backoff.
    config.default_retry = false;
    config.headers.push((
        USER_AGENT,
        HeaderValue::from_str(user_agent).context("--identity contains characters that HTTP headers do not allow")?,
    ));
    Ok(config)
}

async fn from_file(file: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// The layer that limits requests. Without a rate there is no limit.
fn rate_limit(rate: Option<RateLimit>) -> Either<RequestLimitLayer, Identity> {
    option_layer(rate.map(RequestLimitLayer))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::{pending, ready},
    };

    use tokio::time::Instant;
    use tower::{Layer, Service, ServiceExt, service_fn};

    use super::*;
    use crate::api_error::ApiError;

    /// The time for `requests` requests to a server that responds immediately.
    async fn time_of(requests: u32, rate: Option<RateLimit>) -> Duration {
        let began = Instant::now();
        let mut limited = rate_limit(rate).layer(service_fn(async |()| Ok::<_, Infallible>(())));
        for _ in 0..requests {
            limited.ready().await.unwrap().call(()).await.unwrap();
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_stay_within_the_configured_rate() {
        let rate = RateLimit { qps: 10.0, burst: 5 };
        assert_eq!(time_of(5, Some(rate)).await, Duration::ZERO, "a burst does not wait");
        assert_eq!(time_of(6, Some(rate)).await.as_millis(), 100, "the next request waits for one token");
        let time = time_of(50, Some(rate)).await;
        assert!((4400..=4700).contains(&time.as_millis()), "50 requests at 10 per second took {time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_is_an_error_with_the_limit() {
        let limit = Duration::from_secs(10);
        let error = with_timeout(limit, pending::<Result<(), _>>()).await.unwrap_err();
        assert_eq!(ApiError::from(&error), ApiError::timeout(limit));
        assert_eq!(ApiError::timeout(limit).to_string(), "Timeout: no answer within 10s");
        assert_eq!(with_timeout(limit, ready(Ok(1))).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_a_configured_rate_do_not_wait() {
        assert_eq!(time_of(10_000, None).await, Duration::ZERO);
    }
}
