//! compute-domain-daemon: runs on each node of a ComputeDomain. It registers the node, learns its peers, and runs the IMEX process.
//!
//! Modules in reading order: [`args`] are its flags and variables. [`driver`] lets the state machine of
//! `grove_api_types::compute_domain::daemon` run: it delivers watch events ([`watches`]), sends requests ([`api`]), and waits for delays.
//! [`imex`] writes the files of the IMEX process, and starts, signals and restarts it. [`check`] is the probe.

use std::process::ExitCode;

use anyhow::{Context, bail};
use grove_api_types::compute_domain::daemon::Daemon;
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_process::api_error::error_chain;
use grove_process::client::{self, Clients, Connection};
use grove_process::health_and_metrics;
use grove_process::ready::Readiness;
use grove_process::signals::Signals;
use grove_process::telemetry::{self, ServiceIdentity};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub mod api;
pub mod args;
pub mod check;
pub mod command;
pub mod driver;
mod feature_gates;
pub mod imex;
pub mod metrics;
pub mod rbac;
pub mod watches;

#[cfg(test)]
mod test_fixtures;

use args::{Args, MissingVariable, Verb};
use imex::Imex;
use metrics::DaemonMetrics;

/// The name of the process: of its user agent and of its container.
pub const NAME: &str = "compute-domain-daemon";

/// The exit code for a missing variable. Clap uses the same code for invalid flags.
const EXIT_USAGE: u8 = 2;

/// Runs the process. The exit code is 0 after SIGTERM or a successful check, 2 for a missing variable, and 1 for every other error.
pub async fn main(args: &Args) -> ExitCode {
    let result = match args.verb {
        Verb::Run => run(args).await,
        Verb::Check => check::run(&args.node, &args.imex).await,
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    let chain = error_chain(error.as_ref());
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{chain}");
    } else {
        eprintln!("error: {chain}");
    }
    if error.is::<MissingVariable>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}

/// Runs the daemon until a signal. A second signal ends it at once.
async fn run(args: &Args) -> anyhow::Result<()> {
    client::install_crypto_provider();
    let mut signals = Signals::listen().context("could not listen for signals")?;
    let identity = args.node.identity()?;
    let clients = start(args, &identity).await?;
    let metrics = DaemonMetrics::new().context("could not set up the metrics")?;
    let readiness = Readiness::new();
    let (probes, of_metrics) = (args.process.probe_address, args.process.metrics_address);
    health_and_metrics::serve(probes, of_metrics, readiness.clone(), metrics.registry().clone()).await?;
    let stop = CancellationToken::new();
    let stopped = work(args, &identity, &clients, &metrics, (&readiness, &stop));
    tokio::pin!(stopped);
    tokio::select! {
        () = &mut stopped => return Ok(()),
        () = signals.next() => begin_stop(&stop),
    }
    tokio::select! {
        () = stopped => telemetry::finish().await,
        () = signals.next() => bail!("the process received a second signal before it had removed its entry"),
    }
    Ok(())
}

/// Starts logging, and creates the clients.
async fn start(args: &Args, identity: &Identity) -> anyhow::Result<Clients> {
    let version = env!("CARGO_PKG_VERSION");
    let source = ServiceIdentity { service: NAME, version, instance: &identity.pod_name };
    telemetry::start(args.process.log_format, args.process.log_level(), &source)?;
    let agent = format!("{NAME}/{version} ({})", identity.pod_name);
    let connection = client::connect(args.process.kubeconfig.as_deref(), &agent, args.sync.rate_limit()).await?;
    let Connection { clients, server, .. } = connection;
    let Identity { node, clique, domain_uid: domain, .. } = identity;
    tracing::info!(version, server, strategy = args.sync.strategy().name(), node, clique, domain, "started");
    Ok(clients)
}

fn begin_stop(stop: &CancellationToken) {
    tracing::info!("stopping; a second signal ends the process at once");
    stop.cancel();
}

/// The daemon and its IMEX process. Without a fabric there is no IMEX process.
async fn work(
    args: &Args,
    identity: &Identity,
    clients: &Clients,
    metrics: &DaemonMetrics,
    (readiness, stop): (&Readiness, &CancellationToken),
) {
    let (sender, changes) = mpsc::unbounded_channel();
    let daemon = Daemon::new(identity.clone(), args.sync.strategy());
    let daemon = driver::run(daemon, clients, metrics, &sender, stop);
    if identity.clique.is_empty() {
        daemon.await;
        return;
    }
    let imex = Imex::new(&args.imex, identity, metrics.clone(), readiness.register("IMEX"));
    tokio::join!(daemon, imex.run(changes, stop));
}
