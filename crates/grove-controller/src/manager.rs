//! The manager, as in controller-runtime: the objects that the controllers of one process share. These are the runtime, the
//! executor and the event broadcaster.

use std::{ops::Deref, sync::atomic::Ordering};

use grove_runtime::runtime::{Drain, Runtime};

use crate::{
    events::EventBroadcaster, executor::Executor, state_metrics::StateMetrics,
    terminating_namespaces::TerminatingNamespaces, work_queue_metrics::WorkQueueMetrics,
};

/// The label of the map of the event broadcaster, in place of a controller.
const EVENT_BROADCASTER: &str = "event-broadcaster";

/// The runtime of a process together with its executor. Cheap to clone; all clones share everything.
#[derive(Clone)]
pub struct Manager {
    runtime: Runtime,
    executor: Executor,
    events: EventBroadcaster,
    work_queue_metrics: WorkQueueMetrics,
    state_metrics: StateMetrics,
}

impl Manager {
    /// Starts the event broadcaster, and creates the executor. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the metrics of the work queues or of the maps are already registered.
    pub fn new(runtime: &Runtime) -> anyhow::Result<Self> {
        let events = EventBroadcaster::start(runtime.client(), runtime.name());
        let executor = Executor::new(runtime.client(), events.clone(), runtime.metrics().clone());
        let executor = executor.gated_by_leadership(runtime.leadership().clone());
        let work_queue_metrics = WorkQueueMetrics::register(runtime.metrics().registry())?;
        let state_metrics = StateMetrics::register(runtime.metrics().registry())?;
        let remembered = events.remembered_warnings();
        state_metrics.add(EVENT_BROADCASTER, "remembered_warnings", move || remembered.load(Ordering::Relaxed));
        Ok(Self { runtime: runtime.clone(), executor, events, work_queue_metrics, state_metrics })
    }

    /// The executor of the process.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Starts the informer of namespaces. From then on, no event about an object in a terminating namespace is published.
    pub fn start_namespace_informer(&self) -> TerminatingNamespaces {
        self.use_namespaces(TerminatingNamespaces::start(&self.runtime))
    }

    /// The same, with the UIDs of all namespaces.
    pub fn start_namespace_informer_with_uids(&self) -> TerminatingNamespaces {
        self.use_namespaces(TerminatingNamespaces::start_with_uids(&self.runtime))
    }

    fn use_namespaces(&self, namespaces: TerminatingNamespaces) -> TerminatingNamespaces {
        self.events.skip_terminating_namespaces(namespaces.clone());
        namespaces
    }

    /// The metric about the maps that the controllers store in memory.
    pub fn state_metrics(&self) -> &StateMetrics {
        &self.state_metrics
    }

    pub(crate) fn work_queue_metrics(&self) -> &WorkQueueMetrics {
        &self.work_queue_metrics
    }

    /// Waits until all caches are filled, like client-go's `WaitForCacheSync`. Returns false if the process is stopped before.
    /// Subscribe to a cache afterwards: an unread stream stores every delta.
    pub async fn wait_for_cache_sync(&self) -> bool {
        tokio::select! {
            () = self.readiness().wait() => true,
            () = self.shutdown().cancelled() => false,
        }
    }

    /// Runs `work` as [`Runtime::run`] does, and drains the events and the writes at the end.
    ///
    /// # Errors
    /// The error of `work`, a lost lease, or a drain that took too long.
    pub async fn run(&self, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        self.runtime.run(work, self).await
    }
}

impl Deref for Manager {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drain for Manager {
    async fn flush(&self) {
        self.events.flush().await;
    }

    async fn wait_idle(&self) {
        self.executor.wait_idle().await;
    }
}
