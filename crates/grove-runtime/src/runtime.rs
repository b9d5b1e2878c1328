//! The runtime of a service: start, work, drain.

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt, stream};
use grove_api_types::configuration::{OperatorConfiguration, RateLimit};
use kube::{Api, Client, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    admin,
    args::CommonArgs,
    caches::{self, Cache, Delta, Filter, Slot},
    client::{self, Clients, Connection},
    clock::Clock,
    config::{self, Loaded},
    identity,
    leader_election::{LeaderElector, LeadershipLost, LeaseLock},
    leadership::Leadership,
    metrics::Metrics,
    rbac::SYSTEM_NAMESPACE,
    ready::Ready,
    shutdown::{Shutdown, Signals},
    telemetry::{self, Who},
};

/// What was begun may take this long after the service was asked to stop.
const DRAIN: Duration = Duration::from_secs(25);
/// The last events may take this long.
const FLUSH: Duration = Duration::from_secs(3);

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

/// What a service has at hand. Cheap to clone; all clones are the same service.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    /// The namespace it runs in.
    namespace: String,
    clients: Clients,
    config: OperatorConfiguration,
    metrics: Metrics,
    ready: Ready,
    shutdown: Shutdown,
    /// What was told to the process since its start, until somebody works.
    signals: Mutex<Option<Signals>>,
    leadership: Leadership,
    /// Of each kind that is watched, whether it is served.
    kinds: Mutex<Vec<watch::Receiver<bool>>>,
    /// The leader elector; `None` if leader election is off, and after `run` has taken it.
    elector: Mutex<Option<LeaderElector>>,
}

impl Runtime {
    /// Reads the configuration, starts logging, connects, and answers probes: alive at once, ready when the caches are.
    pub async fn start(name: &'static str, args: &CommonArgs) -> anyhow::Result<Self> {
        client::install_crypto_provider();
        // Whoever is told of probes and metrics may ask the process to stop.
        let signals = Signals::listen().context("could not listen for signals")?;
        let identity = args.identity.clone().unwrap_or_else(identity::made_up);
        let (version, kubeconfig) = (env!("CARGO_PKG_VERSION"), args.kubeconfig.as_deref());
        let who = Who { service: name, version, identity: &identity };
        let Loaded { configuration, warnings: _, hash } = configure(args, &who)?;
        let agent = format!("{name}/{version} ({identity})");
        let Connection { clients, leases, server, namespace } =
            client::connect(kubeconfig, &agent, configuration.rate_limit).await?;
        let probes = args.probe_address.unwrap_or(configuration.server.health_probes.0);
        let metrics = args.metrics_address.unwrap_or(configuration.server.metrics.0);
        let service = if configuration.leader_election.enabled {
            let leadership = Leadership::standby();
            let lock = LeaseLock { client: leases, namespace: namespace.clone(), service: name.to_owned() };
            let election = configuration.leader_election.clone();
            let service = Self::with_leadership(leadership.clone(), (name, namespace), clients, configuration)?;
            let elector = LeaderElector::new(lock, &identity, &election, leadership, service.metrics().clone());
            service.elector().replace(elector);
            service
        } else {
            Self::with_leadership(Leadership::always(), (name, namespace), clients, configuration)?
        };
        service.metrics().set_config_hash(&hash);
        service.signals().replace(signals);
        admin::serve(probes, metrics, service.ready().clone(), service.metrics().clone()).await?;
        tracing::info!(service = name, version, identity, server, configuration = hash, "started");
        Ok(service)
    }

    /// A service over clients that exist already, without logs, ports and rivals. Needs a tokio runtime.
    pub fn from_clients(name: &'static str, clients: Clients, config: OperatorConfiguration) -> anyhow::Result<Self> {
        Self::with_leadership(Leadership::always(), (name, SYSTEM_NAMESPACE.to_owned()), clients, config)
    }

    /// A runtime over existing clients, whose writes are gated by `leadership`. Needs a tokio runtime.
    pub fn with_leadership(
        leadership: Leadership,
        (name, namespace): (&'static str, String),
        clients: Clients,
        config: OperatorConfiguration,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("could not set up the metrics")?;
        let (ready, shutdown) = (Ready::new(), Shutdown::new());
        let (signals, kinds, elector) = (Mutex::default(), Mutex::default(), Mutex::default());
        let inner =
            Inner { name, namespace, clients, config, metrics, ready, shutdown, signals, leadership, kinds, elector };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The service's name.
    pub fn name(&self) -> &'static str {
        self.inner.name
    }

    /// The namespace that the service runs in; outside of a cluster the one it would run in.
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The client for single requests.
    pub fn client(&self) -> Client {
        self.inner.clients.requests.clone()
    }

    /// The client for lists and watches, with connections of its own.
    pub fn watch_client(&self) -> Client {
        self.inner.clients.watches.clone()
    }

    /// The configuration as read at the start.
    pub fn config(&self) -> &OperatorConfiguration {
        &self.inner.config
    }

    /// What readiness waits for.
    pub fn ready(&self) -> &Ready {
        &self.inner.ready
    }

    /// The request to stop.
    pub fn shutdown(&self) -> &Shutdown {
        &self.inner.shutdown
    }

    /// Whether this replica may act.
    pub fn leadership(&self) -> &Leadership {
        &self.inner.leadership
    }

    /// The service's metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The clock to hand to the reconcilers.
    pub fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Watches kind `K` in all namespaces; the service is not ready before the first list is in the cache.
    pub fn watch<K>(
        &self,
        config: watcher::Config,
        slot: Option<Slot<K>>,
    ) -> (Cache<K>, impl Stream<Item = Delta<K>> + Send + Unpin + 'static + use<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.follow(config, (slot, None))
    }

    /// Watches kind `K` in all namespaces and retains what `keep` says matters; what ceases to matter counts as gone.
    pub fn watch_filtered<K>(
        &self,
        keep: Filter<K>,
        slot: Option<Slot<K>>,
    ) -> (Cache<K>, impl Stream<Item = Delta<K>> + Send + Unpin + 'static + use<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.follow(watcher::Config::default(), (slot, Some(keep)))
    }

    fn follow<K>(
        &self,
        config: watcher::Config,
        which: (Option<Slot<K>>, Option<Filter<K>>),
    ) -> (Cache<K>, impl Stream<Item = Delta<K>> + Send + Unpin + 'static + use<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let ready = self.ready().register(K::plural(&()));
        let (cache, changes) =
            caches::start_informer(Api::all(self.watch_client()), config, ready, which, self.metrics());
        self.kinds().push(cache.subscribe_served());
        (cache, changes)
    }

    /// An item each time the API server comes to know a kind that is watched, or ceases to.
    pub fn served_kinds_changed(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        let kinds = self.kinds().clone();
        stream::select_all(kinds.into_iter().map(|kind| {
            let changes = stream::unfold(kind, |mut kind| async move {
                kind.changed().await.ok()?;
                Some(((), kind))
            });
            changes.boxed()
        }))
    }

    fn kinds(&self) -> MutexGuard<'_, Vec<watch::Receiver<bool>>> {
        self.inner.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until SIGTERM or SIGINT, then lets `work` finish what it began. A second signal ends it at once, and so does
    /// another replica that took the lead.
    ///
    /// `work` ends by itself once [`Runtime::shutdown`] is asked; an error of it is the service's. The lead is given up
    /// last, when nothing is written any more.
    pub async fn run(
        &self,
        work: impl Future<Output = anyhow::Result<()>>,
        writers: &impl Drain,
    ) -> anyhow::Result<()> {
        let early = self.signals().take();
        let mut signals = early.map_or_else(Signals::listen, Ok).context("could not listen for signals")?;
        let release = Shutdown::new();
        let mut election_run = std::pin::pin!(self.run_leader_election(&release));
        let working = async {
            tokio::pin!(work);
            tokio::select! {
                result = &mut work => result,
                () = signals.next() => self.drain(work, signals).await,
            }
        };
        let result = tokio::select! {
            result = working => result,
            Err(lost) = &mut election_run => return Err(lost.into()),
        };
        // Whoever works beside `work` hears of its end too.
        self.shutdown().ask();
        let flushed = timeout(FLUSH, writers.flush()).await.is_ok();
        self.leadership().release();
        writers.wait_idle().await;
        release.ask();
        // What happens to the lease from here on is nobody's concern.
        drop(election_run.await);
        tracing::info!(service = self.name(), succeeded = result.is_ok(), events_flushed = flushed, "stopped");
        result
    }

    /// Runs the leader election from the moment the caches are synced until `release`.
    async fn run_leader_election(&self, release: &Shutdown) -> Result<(), LeadershipLost> {
        let elector = self.elector().take();
        match elector {
            None => release.asked().await,
            Some(elector) => tokio::select! {
                () = self.ready().wait() => return elector.run(release.asked()).await,
                () = release.asked() => {}
            },
        }
        Ok(())
    }

    fn signals(&self) -> MutexGuard<'_, Option<Signals>> {
        self.inner.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elector(&self) -> MutexGuard<'_, Option<LeaderElector>> {
        self.inner.elector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn drain(
        &self,
        work: Pin<&mut impl Future<Output = anyhow::Result<()>>>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        tracing::info!("stopping; a second signal ends the service at once");
        self.shutdown().ask();
        tokio::select! {
            result = work => result,
            () = signals.next() => bail!("a second signal came before the work was finished"),
            () = sleep(DRAIN) => bail!("the work was not finished within {DRAIN:?}"),
        }
    }
}

fn configure(args: &CommonArgs, who: &Who<'_>) -> anyhow::Result<Loaded> {
    let loaded = config::load(args.config.as_deref())?;
    let configuration = &loaded.configuration;
    let level = args.log_level.as_deref().unwrap_or(configuration.log_level.as_str());
    telemetry::start(args.log_format.unwrap_or(configuration.log_format.into()), level, who)?;
    for warning in &loaded.warnings {
        tracing::warn!("configuration: {warning}");
    }
    log_rate(configuration.rate_limit);
    Ok(loaded)
}

fn log_rate(rate: Option<RateLimit>) {
    let Some(RateLimit { qps, burst }) = rate else { return };
    let seconds = 1000.0 / qps;
    tracing::warn!(
        qps,
        burst,
        "requests are limited: 1000 writes take at least {seconds:.0} s. \
         Remove runtimeClientConnection.qps and burst to have no limit"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;
    use grove_test_support::mock_api_server::{self, MockResponse};

    fn service() -> Runtime {
        let (client, _) = mock_api_server::client(|_| MockResponse::NoResponse);
        let clients = Clients { requests: client.clone(), watches: client };
        Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap()
    }

    fn send_sigterm_to_ourselves() {
        let own = std::process::id().to_string();
        assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
    }

    // One test, because all of a process hears its signals.
    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_aborts() {
        let (drained, finished) = (service(), AtomicBool::new(false));
        let work = async {
            send_sigterm_to_ourselves();
            drained.shutdown().asked().await;
            sleep(Duration::from_millis(50)).await;
            finished.store(true, Ordering::SeqCst);
            Ok(())
        };
        drained.run(work, &()).await.unwrap();
        assert!(finished.load(Ordering::SeqCst), "the work was cut off");

        let aborted = service();
        let work = async {
            send_sigterm_to_ourselves();
            aborted.shutdown().asked().await;
            send_sigterm_to_ourselves();
            std::future::pending().await
        };
        let error = aborted.run(work, &()).await.unwrap_err();
        assert!(error.to_string().contains("second signal"), "{error}");
    }

    #[tokio::test]
    async fn a_failure_of_the_work_is_the_services() {
        let error = service().run(async { bail!("it broke") }, &()).await.unwrap_err();
        assert_eq!(error.to_string(), "it broke");
    }
}
