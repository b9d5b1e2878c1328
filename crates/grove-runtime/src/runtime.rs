//! The runtime of a service: it starts the process, runs the work, and drains it after a signal.

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt, stream};
use grove_api_types::{
    SYSTEM_NAMESPACE,
    configuration::{Address, OperatorConfiguration, RateLimit},
};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{CommonArgs, flag_or_configured},
    caches::{self, Availability, Cache, InformerOptions},
    client::{self, Clients, Connection},
    clock::Clock,
    config::{self, LoadedConfiguration},
    health_and_metrics, identity,
    leader_election::thread::PendingElection,
    leadership::Leadership,
    metrics::{Metrics, name_with_group},
    ready::Readiness,
    signals::Signals,
    telemetry::{self, ServiceIdentity},
};

/// Time for the running work after a signal. It is shorter than the default `terminationGracePeriodSeconds` of 30 s.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// Time for publishing the queued events at the end.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Writes that have to end before the process releases its lease.
pub trait Drain {
    /// Publishes the queued events. The runtime waits at most three seconds.
    fn flush(&self) -> impl Future<Output = ()>;

    /// Returns when no write is in flight. The process no longer leads by then, so that every write in flight is cancelled.
    fn wait_idle(&self) -> impl Future<Output = ()>;
}

/// A process without queued events and without writes of its own.
impl Drain for () {
    async fn flush(&self) {}

    async fn wait_idle(&self) {}
}

/// The resources of a running service: clients, configuration, metrics, readiness, shutdown and leadership. A clone shares
/// its state.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    namespace: String,
    clients: Clients,
    config: OperatorConfiguration,
    metrics: Metrics,
    readiness: Readiness,
    shutdown: CancellationToken,
    /// The signal handlers since the start of the process, until `run` takes them.
    signals: Mutex<Option<Signals>>,
    leadership: Leadership,
    /// Whether the API server serves the kind, for each informer.
    availabilities: Mutex<Vec<watch::Receiver<Availability>>>,
    /// The leader election; `None` if it is off, and after `run` has started it.
    election: Mutex<Option<PendingElection>>,
}

impl Runtime {
    /// Reads the configuration, starts logging, creates the clients, and serves probes and metrics. The service is healthy
    /// from then on, and ready when its caches are synced.
    pub async fn start(name: &'static str, args: &CommonArgs) -> anyhow::Result<Self> {
        client::install_crypto_provider();
        // A process that serves probes can receive a signal before its work starts.
        let signals = Signals::listen().context("could not listen for signals")?;
        let identity = args.identity.clone().unwrap_or_else(identity::default_identity);
        let (version, kubeconfig) = (env!("CARGO_PKG_VERSION"), args.kubeconfig.as_deref());
        let source = ServiceIdentity { service: name, version, instance: &identity };
        let LoadedConfiguration { configuration, warnings: _, hash } = configure(args, &source)?;
        let agent = format!("{name}/{version} ({identity})");
        let Connection { clients, lease_config, server, namespace } =
            client::connect(kubeconfig, &agent, configuration.rate_limit).await?;
        let probes = ("server.healthProbes", configuration.server.health_probes);
        let metrics = ("server.metrics", configuration.server.metrics);
        let Address(probe_address) = flag_or_configured(("--probe-address", args.probe_address.map(Address)), probes);
        let Address(metrics_address) =
            flag_or_configured(("--metrics-address", args.metrics_address.map(Address)), metrics);
        let runtime = if configuration.leader_election.enabled {
            let leadership = Leadership::standby();
            let settings = configuration.leader_election.clone();
            let service_and_namespace = (name, namespace.clone());
            let runtime = Self::with_leadership(leadership.clone(), service_and_namespace, clients, configuration)?;
            let election = PendingElection {
                config: lease_config,
                namespace,
                service: name.to_owned(),
                identity: identity.clone(),
                settings,
                leadership,
                metrics: runtime.metrics().clone(),
            };
            runtime.inner.election.lock().replace(election);
            runtime
        } else {
            Self::with_leadership(Leadership::always(), (name, namespace), clients, configuration)?
        };
        runtime.metrics().set_config_hash(&hash);
        runtime.inner.signals.lock().replace(signals);
        let (readiness, metrics) = (runtime.readiness().clone(), runtime.metrics().registry().clone());
        health_and_metrics::serve(probe_address, metrics_address, readiness, metrics).await?;
        tracing::info!(service = name, version, identity, server, configuration = hash, "started");
        Ok(runtime)
    }

    /// A runtime over existing clients, without logging, endpoints and leader election. Needs a tokio runtime.
    pub fn from_clients(name: &'static str, clients: Clients, config: OperatorConfiguration) -> anyhow::Result<Self> {
        Self::with_leadership(Leadership::always(), (name, SYSTEM_NAMESPACE.to_owned()), clients, config)
    }

    /// A runtime over existing clients with this `leadership`. Needs a tokio runtime.
    pub fn with_leadership(
        leadership: Leadership,
        (name, namespace): (&'static str, String),
        clients: Clients,
        config: OperatorConfiguration,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("could not set up the metrics")?;
        let inner = Inner {
            name,
            namespace,
            clients,
            config,
            metrics,
            readiness: Readiness::new(),
            shutdown: CancellationToken::new(),
            signals: Mutex::default(),
            leadership,
            availabilities: Mutex::default(),
            election: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The name of the service.
    pub fn name(&self) -> &'static str {
        self.inner.name
    }

    /// The namespace of the service. A process outside of a cluster has the namespace `grove-system`.
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The client for single requests.
    pub fn client(&self) -> Client {
        self.inner.clients.requests.clone()
    }

    /// The client for lists and watches. It has its own connections.
    pub fn watch_client(&self) -> Client {
        self.inner.clients.watches.clone()
    }

    /// The configuration from the start of the process.
    pub fn config(&self) -> &OperatorConfiguration {
        &self.inner.config
    }

    /// The readiness of the components.
    pub fn readiness(&self) -> &Readiness {
        &self.inner.readiness
    }

    /// The token that a signal, or the end of the work, cancels.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.inner.shutdown
    }

    /// Whether this replica leads.
    pub fn leadership(&self) -> &Leadership {
        &self.inner.leadership
    }

    /// The service's metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The system's clock, for the reconcilers.
    pub fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Starts the informer of kind `K` in all namespaces. The service is ready only after its first list.
    pub fn start_informer<K>(&self, options: InformerOptions<K>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.start_dynamic_informer(&(), options)
    }

    /// Starts the informer of a kind that is known only at run time, in all namespaces. `dyntype` names the kind, for
    /// example a `DynamicObject` by its `ApiResource`.
    pub fn start_dynamic_informer<K>(&self, dyntype: &K::DynamicType, options: InformerOptions<K>) -> Cache<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let ready = self.readiness().register(name_with_group(&K::plural(dyntype), &K::group(dyntype)));
        let api = Api::all_with(self.watch_client(), dyntype);
        let cache = caches::start_informer(api, dyntype, options, ready, self.metrics());
        self.inner.availabilities.lock().push(cache.subscribe_availability());
        cache
    }

    /// Yields an item each time the [availability](Availability) of the kind of an informer changes.
    pub fn availability_changed(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        let kinds = self.inner.availabilities.lock().clone();
        stream::select_all(kinds.into_iter().map(|kind| {
            let changes = stream::unfold(kind, |mut kind| async move {
                kind.changed().await.ok()?;
                Some(((), kind))
            });
            changes.boxed()
        }))
    }

    /// Runs `work` until it ends. SIGTERM and SIGINT cancel the [`shutdown`](Runtime::shutdown) token, on which `work` must
    /// end within 25 s. The process releases its lease last, when no write is in flight.
    ///
    /// # Errors
    /// The error of `work`, a second signal, the end of the 25 s, or the loss of the leadership to another replica.
    pub async fn run(
        &self,
        work: impl Future<Output = anyhow::Result<()>>,
        writers: &impl Drain,
    ) -> anyhow::Result<()> {
        let handlers = self.inner.signals.lock().take();
        let mut signals = handlers.map_or_else(Signals::listen, Ok).context("could not listen for signals")?;
        let release = CancellationToken::new();
        let mut election = std::pin::pin!(self.run_leader_election(&release));
        let drained = async {
            tokio::pin!(work);
            tokio::select! {
                result = &mut work => result,
                () = signals.next() => self.drain(work, signals).await,
            }
        };
        let result = tokio::select! {
            result = drained => result,
            Err(lost) = &mut election => return Err(lost),
        };
        // Tasks beside `work` stop when `work` ends by itself.
        self.shutdown().cancel();
        let flushed = timeout(EVENT_FLUSH_TIMEOUT, writers.flush()).await.is_ok();
        self.leadership().release();
        writers.wait_idle().await;
        release.cancel();
        // The process has stopped writing, so a lost lease is no error any more.
        drop(election.await);
        tracing::info!(service = self.name(), succeeded = result.is_ok(), events_flushed = flushed, "stopped");
        result
    }

    /// Runs the leader election from the moment the caches are synced until `release`.
    async fn run_leader_election(&self, release: &CancellationToken) -> anyhow::Result<()> {
        let election = self.inner.election.lock().take();
        match election {
            None => release.cancelled().await,
            Some(election) => election.run(self.readiness().clone(), release.clone()).await?,
        }
        Ok(())
    }

    async fn drain(
        &self,
        work: Pin<&mut impl Future<Output = anyhow::Result<()>>>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        tracing::info!("stopping; a second signal ends the wait for running reconciles and requests");
        self.shutdown().cancel();
        tokio::select! {
            result = work => result,
            () = signals.next() => bail!("the process received a second signal before the work was finished"),
            () = sleep(DRAIN_TIMEOUT) => bail!("the work was not finished within {DRAIN_TIMEOUT:?}"),
        }
    }
}

fn configure(args: &CommonArgs, identity: &ServiceIdentity<'_>) -> anyhow::Result<LoadedConfiguration> {
    let loaded = config::load(args.config.as_deref())?;
    let configuration = &loaded.configuration;
    let level = args.log_level.as_deref().unwrap_or(configuration.log_level.as_str());
    telemetry::start(args.log_format.unwrap_or(configuration.log_format.into()), level, identity)?;
    for warning in &loaded.warnings {
        tracing::warn!("configuration: {warning}");
    }
    warn_about_rate_limit(configuration.rate_limit);
    Ok(loaded)
}

fn warn_about_rate_limit(rate_limit: Option<RateLimit>) {
    let Some(RateLimit { qps, burst }) = rate_limit else { return };
    let seconds = 1000.0 / qps;
    tracing::warn!(
        qps,
        burst,
        "the configuration limits the request rate: 1000 writes take at least {seconds:.0} s. \
         Remove runtimeClientConnection.qps and burst to remove the limit"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
    };

    use grove_test_support::mock_api_server::{self, MockResponse};

    use super::*;

    fn runtime() -> Runtime {
        let (client, _) = mock_api_server::client(|_| MockResponse::NoResponse);
        let clients = Clients { requests: client.clone(), watches: client };
        Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap()
    }

    fn send_sigterm_to_ourselves() {
        let own = std::process::id().to_string();
        assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
    }

    // One test, because a signal reaches all handlers of the process.
    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_aborts() {
        let (drained, finished) = (runtime(), AtomicBool::new(false));
        let work = async {
            send_sigterm_to_ourselves();
            drained.shutdown().cancelled().await;
            sleep(Duration::from_millis(50)).await;
            finished.store(true, Ordering::SeqCst);
            Ok(())
        };
        drained.run(work, &()).await.unwrap();
        assert!(finished.load(Ordering::SeqCst), "the runtime cancelled the work");

        let aborted = runtime();
        let work = async {
            send_sigterm_to_ourselves();
            aborted.shutdown().cancelled().await;
            send_sigterm_to_ourselves();
            std::future::pending().await
        };
        let error = aborted.run(work, &()).await.unwrap_err();
        assert!(error.to_string().contains("second signal"), "{error}");
    }

    #[tokio::test]
    async fn run_returns_the_error_of_the_work() {
        let error = runtime().run(async { bail!("it broke") }, &()).await.unwrap_err();
        assert_eq!(error.to_string(), "it broke");
    }
}
