//! webhook-server: the admission webhooks of Grove. They set defaults, validate objects and protect managed objects.
//!
//! Modules in reading order: [`webhook`] lists the webhooks. `routes` reads a request and writes the response. `admit`
//! calls the rules, which are pure functions of `grove_api_types::admission`. `cluster_facts` provides the facts that
//! the rules need. `certs` provides the serving certificate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::try_join3;
use grove_api_types::configuration::Address;
use grove_runtime::args::flag_or_configured;
use grove_runtime::listen;
use grove_runtime::ready::Readiness;
use grove_runtime::runtime::Runtime;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

mod admit;
pub mod args;
mod cache_transform;
mod certs;
mod cluster_facts;
mod gpu_nodes;
mod lru_pool;
mod memory_budget;
mod metrics;
mod missing_object;
mod queues;
pub mod rbac;
mod review;
mod routes;
mod serve;
mod template_review;
pub mod webhook;
pub mod webhook_configurations;

use args::WebhookArgs;
use certs::{CertOptions, ServingCert};
use cluster_facts::ClusterFacts;
use lru_pool::LruPool;
use metrics::WebhookMetrics;
use routes::WebhookState;

/// The name of the service, of its `ServiceAccount` and core/v1 Service, and of its user agent.
pub const NAME: &str = "webhook-server";

/// Serves the webhooks until the shutdown, and finishes the open requests.
///
/// # Errors
/// If the address is already in use, or the directory of the certificate files cannot be watched.
pub async fn run(runtime: &Runtime, args: &WebhookArgs) -> anyhow::Result<()> {
    let configured = &runtime.config().server.webhooks;
    let addresses = ("server.webhooks", configured.address);
    let Address(address) = flag_or_configured(("--webhook-address", args.webhook_address.map(Address)), addresses);
    let listener = listen::bind(address, "webhooks").await?;
    let metrics = WebhookMetrics::new(runtime.metrics().registry()).context("could not register the metrics")?;
    let serving_cert = ServingCert::default();
    let modes = ("server.webhooks.certProvisionMode", configured.cert_provision_mode);
    let options = CertOptions {
        mode: flag_or_configured(("--cert-provision-mode", args.cert_provision_mode.map(Into::into)), modes),
        subject_alt_names: args.certificate_names.clone(),
        certificate_period: args.certificate_period,
        ca_period: args.ca_period,
    };
    let state =
        WebhookState::new(ClusterFacts::start(runtime, &args.grove_accounts), runtime.client(), metrics.clone());
    let certs = certs::manage(runtime, &serving_cert, options, &metrics);
    let connections = serve::connection_pool(serve::MAX_CONNECTIONS, metrics.connections());
    let server = serve(runtime, (listener, connections), state, serving_cert.clone(), args.shutdown_delay_duration);
    let readiness = mark_unready_on_shutdown(runtime.readiness(), runtime.shutdown());
    // Boxed, because the combined future is large.
    let work = Box::pin(try_join3(certs, server, readiness.map(Ok)));
    runtime.run(work.map(|result| result.map(drop)), &()).await
}

/// Accepts connections once the caches are synced. Earlier clients wait in the backlog, because rules with empty caches
/// would give wrong responses.
async fn serve(
    runtime: &Runtime,
    (listener, connections): (TcpListener, LruPool),
    state: Arc<WebhookState>,
    serving_cert: ServingCert,
    shutdown_delay: Duration,
) -> anyhow::Result<()> {
    let shutdown = runtime.shutdown();
    tokio::select! {
        () = runtime.readiness().wait() => {}
        () = shutdown.cancelled() => return Ok(()),
    }
    let tls = serve::tls(Arc::new(serving_cert)).context("could not set up TLS")?;
    let routes = routes::routes(&state);
    if !serve::serve(listener, tls, routes, connections, (shutdown, shutdown_delay)).await {
        tracing::warn!("some connections did not end in time and are dropped");
    }
    Ok(())
}

/// Fails the readiness probe from the start of the shutdown on, so that load balancers stop sending requests.
async fn mark_unready_on_shutdown(ready: &Readiness, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    drop(ready.register_probe_only("the end of the shutdown"));
}
