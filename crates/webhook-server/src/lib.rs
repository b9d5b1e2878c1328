//! webhook-server: what is filled in, accepted and refused when objects of Grove are written, who may change what Grove
//! manages, and the certificates for all that.
//!
//! Pages in reading order: [`question`], what is asked; `routes`, how a request becomes an answer; `answer`, which asks the
//! rules of `grove_api_types::admission`; `cluster`, what those have to know; `certs`, by which the API server knows us.
//! No rule of Grove lives here.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::try_join3;
use grove_runtime::ready::Ready;
use grove_runtime::runtime::Runtime;
use grove_runtime::shutdown::Shutdown;
use tokio::net::TcpListener;

mod answer;
pub mod args;
mod certs;
mod cluster;
mod known;
mod metrics;
pub mod question;
pub mod rbac;
pub mod registration;
mod review;
mod room;
mod routes;
mod serve;

use args::WebhookArgs;
use certs::{Identity, Wishes};
use cluster::Cluster;
use metrics::Counters;
use routes::Desk;

/// Name of the service: of its `ServiceAccount`, its `Service`, and its user agent.
pub const NAME: &str = "webhook-server";

/// Answers until the service is told to stop, and what was asked until then.
///
/// # Errors
/// When the address is taken, or the certificate cannot be looked after.
pub async fn run(service: &Runtime, args: &WebhookArgs) -> anyhow::Result<()> {
    let address = args.webhook_address.unwrap_or(service.config().server.webhooks.address.0);
    let listener = listen(address).await?;
    let counters = Counters::new(service.metrics().registry()).context("could not set up the metrics")?;
    let identity = Identity::default();
    let wishes = Wishes {
        mode: args.cert_provision_mode.map(Into::into),
        names: args.certificate_names.clone(),
        certificate_period: args.certificate_period,
        authority_period: args.authority_period,
    };
    let desk = Desk::new(Cluster::watch(service, &args.grove_accounts), counters.clone());
    let looking_after = certs::look_after(service, &identity, wishes, &counters);
    let answering = answer(service, (listener, desk), identity.clone(), args.shutdown_delay_duration);
    let parting = part(service.ready(), service.shutdown());
    // On the heap: together they would make a large future.
    let work = Box::pin(try_join3(looking_after, answering, parting.map(Ok)));
    service.run(work.map(|ended| ended.map(drop)), &()).await
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address} for webhooks"))?;
    tracing::info!(%address, "serving webhooks");
    Ok(listener)
}

/// Who connects before everything is known waits: no answer is made from empty caches.
async fn answer(
    service: &Runtime,
    (listener, desk): (TcpListener, std::sync::Arc<Desk>),
    identity: Identity,
    linger: Duration,
) -> anyhow::Result<()> {
    let stop = service.shutdown();
    tokio::select! {
        () = service.ready().wait() => {}
        () = stop.asked() => return Ok(()),
    }
    let tls = serve::tls(std::sync::Arc::new(identity)).context("could not set up TLS")?;
    if !serve::serve(listener, tls, routes::routes(&desk), serve::CONNECTIONS, (stop, linger)).await {
        tracing::warn!("connections did not end in time and are dropped");
    }
    Ok(())
}

/// From the request to stop on, the probes say that no more requests should be sent here.
async fn part(ready: &Ready, stop: &Shutdown) {
    stop.asked().await;
    drop(ready.register_for_probes("its successor, this process is stopping"));
}
