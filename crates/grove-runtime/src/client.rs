//! Clients of the API server: from a kubeconfig or the pod's own account, without hidden retries.

use std::{path::Path, time::Duration};

use anyhow::Context;
use axum::http::{HeaderValue, header::USER_AGENT};
use grove_api_types::configuration::RateLimit;
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{
    layer::util::Identity,
    limit::RateLimitLayer,
    util::{Either, option_layer},
};

use crate::rbac::SYSTEM_NAMESPACE;

/// The time limit of a single request. A later observation shows whether the request was carried out.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const CONNECT: Duration = Duration::from_secs(5);
/// A connection without a byte for this long is dead; watches have their own limit.
const SILENCE: Duration = Duration::from_secs(30);

/// The two clients of a service: watches must never wait behind writes, so they have connections of their own.
#[derive(Clone)]
pub struct Clients {
    /// For single requests.
    pub requests: Client,
    /// For lists and watches.
    pub watches: Client,
}

/// How a service reaches its cluster.
pub struct Connection {
    /// For its work.
    pub clients: Clients,
    /// For its Lease, which must not wait behind anything.
    pub leases: Client,
    /// The address of the API server.
    pub server: String,
    /// The namespace it runs in; outside of a cluster the one it would run in.
    pub namespace: String,
}

/// Makes ring the process-wide provider of cryptography; to be called before anything speaks TLS.
pub fn install_crypto_provider() {
    // An error means that one is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Sets up the clients that the kubeconfig, or the pod's service account, says. Nothing is sent yet. The API server's
/// logs will know the process as `agent`.
pub async fn connect(kubeconfig: Option<&Path>, agent: &str, rate: Option<RateLimit>) -> anyhow::Result<Connection> {
    let config = configuration(kubeconfig, agent).await?;
    let namespace = match kubeconfig {
        Some(_) => SYSTEM_NAMESPACE.to_owned(),
        None => config.default_namespace.clone(),
    };
    let server = config.cluster_url.to_string();
    let mut watching = config.clone();
    watching.read_timeout = None;
    let leases = Client::try_from(watching.clone()).context("could not set up the client for leases")?;
    let requests = ClientBuilder::try_from(config).context("could not set up the client")?;
    let requests = requests.with_layer(&rate_limit(rate)).build();
    let watches = Client::try_from(watching).context("could not set up the client for watches")?;
    Ok(Connection { clients: Clients { requests, watches }, leases, server, namespace })
}

async fn configuration(kubeconfig: Option<&Path>, agent: &str) -> anyhow::Result<Config> {
    let mut config = match kubeconfig {
        None => Config::incluster().context("not running in a pod; give --kubeconfig FILE")?,
        Some(file) => from_file(file).await.with_context(|| format!("could not use kubeconfig {}", file.display()))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(SILENCE);
    // Else a connection that waited in the pool would have used up its time before it is used again.
    config.reset_reader_on_write = true;
    // kube's retries would hide an overloaded server for minutes; ours are the controllers' backoff.
    config.default_retry = false;
    config.headers.push((USER_AGENT, HeaderValue::from_str(agent).context("--identity is no text for a header")?));
    Ok(config)
}

async fn from_file(file: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

// `burst` requests at once, and as many again after the time in which `qps` would have let them pass; without a rate all
// at once.
fn rate_limit(rate: Option<RateLimit>) -> Either<RateLimitLayer, Identity> {
    option_layer(rate.map(|RateLimit { qps, burst }| {
        RateLimitLayer::new(burst.into(), Duration::from_secs_f64(f64::from(burst) / qps))
    }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::time::Instant;
    use tower::{Layer, Service, ServiceExt, service_fn};

    use super::*;

    /// How long so many requests take whose answers come at once.
    async fn time_of(requests: u32, rate: Option<RateLimit>) -> Duration {
        let began = Instant::now();
        let mut limited = rate_limit(rate).layer(service_fn(async |()| Ok::<_, Infallible>(())));
        for _ in 0..requests {
            limited.ready().await.unwrap().call(()).await.unwrap();
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_configured_rate_is_kept() {
        let rate = RateLimit { qps: 10.0, burst: 5 };
        assert_eq!(time_of(5, Some(rate)).await, Duration::ZERO, "a burst passes at once");
        let time = time_of(50, Some(rate)).await;
        assert!((4400..=4700).contains(&time.as_millis()), "50 requests at 10 per second took {time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_waits() {
        assert_eq!(time_of(10_000, None).await, Duration::ZERO);
    }
}
