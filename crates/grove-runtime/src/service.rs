//! The life of a service: start, work, drain.

use std::{fmt::Debug, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures::Stream;
use kube::{Api, Client, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::{
    admin,
    args::CommonArgs,
    caches::{self, Cache, Change, Keep, Slot},
    client::{self, Clients},
    clock::Clock,
    config::{OperatorConfiguration, RateLimit},
    events::Recorder,
    executor::Executor,
    metrics::Metrics,
    ready::Ready,
    shutdown::{Shutdown, Signals},
    telemetry,
};

const PROBES: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 9081);
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8080);
/// What was begun may take this long after the service was asked to stop.
const DRAIN: Duration = Duration::from_secs(25);
/// The last events may take this long.
const FLUSH: Duration = Duration::from_secs(3);

/// What a service has at hand. Cheap to clone; all clones are the same service.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    clients: Clients,
    config: OperatorConfiguration,
    executor: Executor,
    recorder: Recorder,
    metrics: Metrics,
    ready: Ready,
    shutdown: Shutdown,
}

impl Service {
    /// Reads the configuration, starts logging, connects, and answers probes: alive at once, ready when the caches are.
    pub async fn start(name: &'static str, args: &CommonArgs) -> anyhow::Result<Self> {
        client::install_crypto_provider();
        let config = configure(args)?;
        let clients = client::connect(args.kubeconfig.as_deref(), config.rate_limit).await?;
        let probes = args.probe_address.or(config.probe_address).unwrap_or(PROBES);
        let metrics = args.metrics_address.or(config.metrics_address).unwrap_or(METRICS);
        let service = Self::over(name, clients, config)?;
        admin::serve(probes, metrics, service.ready().clone(), service.metrics().clone()).await?;
        tracing::info!(service = name, version = env!("CARGO_PKG_VERSION"), "started");
        Ok(service)
    }

    /// A service over clients that exist already, without logs and ports of its own. Needs a tokio runtime.
    pub fn over(name: &'static str, clients: Clients, config: OperatorConfiguration) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("could not set up the metrics")?;
        let recorder = Recorder::start(clients.requests.clone(), name);
        let executor = Executor::new(clients.requests.clone(), recorder.clone(), metrics.clone());
        let (ready, shutdown) = (Ready::new(), Shutdown::new());
        Ok(Self { inner: Arc::new(Inner { name, clients, config, executor, recorder, metrics, ready, shutdown }) })
    }

    /// The service's name.
    pub fn name(&self) -> &'static str {
        self.inner.name
    }

    /// The client for single requests.
    pub fn client(&self) -> Client {
        self.inner.clients.requests.clone()
    }

    /// The client for lists and watches, with connections of its own.
    pub fn watch_client(&self) -> Client {
        self.inner.clients.watches.clone()
    }

    /// The one writer.
    pub fn executor(&self) -> &Executor {
        &self.inner.executor
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
    ) -> (Cache<K>, impl Stream<Item = Change<K>> + Send + Unpin + 'static + use<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let ready = self.ready().register(K::plural(&()));
        caches::watch(Api::all(self.watch_client()), config, ready, (slot, None), self.metrics())
    }

    /// Watches kind `K` in all namespaces and retains what `keep` says matters; what ceases to matter counts as gone.
    pub fn watch_some<K>(
        &self,
        keep: Keep<K>,
        slot: Option<Slot<K>>,
    ) -> (Cache<K>, impl Stream<Item = Change<K>> + Send + Unpin + 'static + use<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let ready = self.ready().register(K::plural(&()));
        let config = watcher::Config::default();
        caches::watch(Api::all(self.watch_client()), config, ready, (slot, Some(keep)), self.metrics())
    }

    /// Works until SIGTERM or SIGINT, then lets `work` finish what it began. A second signal ends it at once.
    ///
    /// `work` ends by itself once [`Service::shutdown`] is asked; an error of it is the service's.
    pub async fn run(&self, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        let mut signals = Signals::listen().context("could not listen for signals")?;
        tokio::pin!(work);
        let result = tokio::select! {
            result = &mut work => result,
            () = signals.next() => Ok(self.drain(work, signals).await?),
        };
        // Whoever works beside `work` hears of its end too.
        self.shutdown().ask();
        let flushed = timeout(FLUSH, self.inner.recorder.flush()).await.is_ok();
        tracing::info!(service = self.name(), succeeded = result.is_ok(), events_flushed = flushed, "stopped");
        result
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

fn configure(args: &CommonArgs) -> anyhow::Result<OperatorConfiguration> {
    let (config, warnings) = OperatorConfiguration::read(args.config.as_deref())?;
    let level = args.log_level.as_deref().unwrap_or(&config.log_level);
    telemetry::start(args.log_format.unwrap_or(config.log_format), level)?;
    for warning in warnings {
        tracing::warn!("configuration: {warning}");
    }
    log_rate(config.rate_limit);
    Ok(config)
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
    use crate::scripted::{self, Answer};

    fn service() -> Service {
        let (client, _) = scripted::client(|_| Answer::Silence);
        let clients = Clients { requests: client.clone(), watches: client };
        Service::over("test", clients, OperatorConfiguration::default()).unwrap()
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
        drained.run(work).await.unwrap();
        assert!(finished.load(Ordering::SeqCst), "the work was cut off");

        let aborted = service();
        let work = async {
            send_sigterm_to_ourselves();
            aborted.shutdown().asked().await;
            send_sigterm_to_ourselves();
            std::future::pending().await
        };
        let error = aborted.run(work).await.unwrap_err();
        assert!(error.to_string().contains("second signal"), "{error}");
    }

    #[tokio::test]
    async fn a_failure_of_the_work_is_the_services() {
        let error = service().run(async { bail!("it broke") }).await.unwrap_err();
        assert_eq!(error.to_string(), "it broke");
    }
}
