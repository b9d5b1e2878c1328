//! kube's `Controller`, wired once for all: concurrency, error backoff per object, metrics, logs, drain, orphans.

mod lanes;
mod next;
mod store;
mod wakes;

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Debug,
    future::{Future, ready},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    Stream, StreamExt,
    channel::mpsc,
    future::join,
    stream::{self, BoxStream, SelectAll},
};
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{self, Action, Config},
        reflector::ObjectRef,
    },
};
use serde::de::DeserializeOwned;
use tracing::{Instrument, Span, field::Empty};

use self::{
    lanes::Lanes,
    store::{Feed, shared},
    wakes::{everything, gathered},
};
pub use self::{lanes::Wake, next::Next};
use grove_runtime::{
    api_error::{ApiError, error_chain},
    backoff::Backoff,
    caches::Delta,
    leadership::Leadership,
    metrics::{Metrics, ReconcileResult},
};

use crate::{controllers::Controllers, executor::Executor, plan::Plan, predicates::metadata_or_generation_changed};

/// Orphans are looked after this many at a time.
const SWEEPS: usize = 32;
/// How often the children of a deleted object are tried to be deleted before that is left to the garbage collector.
const SWEEP_ATTEMPTS: u32 = 5;

type Orphans<K> = Arc<dyn Fn(&K) -> Plan + Send + Sync>;

/// One reconciler and what wakes it.
pub struct Wiring<K: Resource<DynamicType = ()> + 'static> {
    name: &'static str,
    concurrency: u16,
    primary: BoxStream<'static, Delta<K>>,
    triggers: SelectAll<BoxStream<'static, Wake<K>>>,
    relief: SelectAll<BoxStream<'static, ObjectRef<K>>>,
    orphans: Option<Orphans<K>>,
}

impl<K> Wiring<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A reconciler of the objects whose changes `primary` tells: each change wakes it, a deletion excepted.
    pub fn new(name: &'static str, primary: impl Stream<Item = Delta<K>> + Send + 'static) -> Self {
        let (triggers, relief) = (SelectAll::new(), SelectAll::new());
        Self { name, concurrency: 10, primary: primary.boxed(), triggers, relief, orphans: None }
    }

    /// How many objects are reconciled at the same time; one object never is twice.
    #[must_use]
    pub fn concurrency(mut self, objects: u16) -> Self {
        // Zero would mean no limit.
        self.concurrency = objects.max(1);
        self
    }

    /// Wakes the reconciler for the objects that `triggers` names: at once for what may call for an act, after a pause
    /// for what is only to be told.
    #[must_use]
    pub fn woken_by<W: Into<Wake<K>> + 'static>(mut self, triggers: impl Stream<Item = W> + Send + 'static) -> Self {
        self.triggers.push(triggers.map(Into::into).boxed());
        self
    }

    /// Wakes the reconciler for the objects that `relief` names, in a moment, and takes up their failures from the
    /// beginning: what they lacked may be there then or soon after.
    #[must_use]
    pub fn relieved_by(mut self, relief: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        self.relief.push(relief.boxed());
        self
    }

    /// When an object is gone, and the server itself confirms it, carries out the plan that removes its children.
    #[must_use]
    pub fn orphans(mut self, plan: impl Fn(&K) -> Plan + Send + Sync + 'static) -> Self {
        self.orphans = Some(Arc::new(plan));
        self
    }

    /// Waits until all caches of the service are filled, then reconciles until the service is asked to stop and what
    /// was begun is finished.
    pub async fn run<C, E, F, R>(self, service: &Controllers, context: Arc<C>, reconcile: F)
    where
        C: Send + Sync + 'static,
        E: Error + Send + 'static,
        F: Fn(Arc<K>, Arc<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Next, E>> + Send + 'static,
    {
        if stopped_before_ready(service).await {
            return;
        }
        let name = self.name;
        self.reconcile_until_stopped(service, context, reconcile).await;
        tracing::info!(controller = name, "stopped");
    }

    async fn reconcile_until_stopped<C, E, F, R>(self, service: &Controllers, context: Arc<C>, reconcile: F)
    where
        C: Send + Sync + 'static,
        E: Error + Send + 'static,
        F: Fn(Arc<K>, Arc<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Next, E>> + Send + 'static,
    {
        let Self { name, concurrency, primary, triggers, relief, orphans } = self;
        tracing::info!(controller = name, concurrency, "reconciling");
        let (left, leaving) = mpsc::unbounded();
        let failures = Arc::new(Failures::default());
        let (store, feed) = store::store();
        let leadership = service.leadership();
        let (led, failed, known) = (leadership.clone(), Arc::clone(&failures), store.clone());
        let relief = gathered(relief).map(move |relieved| {
            known.get(&shared(relieved.clone())).iter().for_each(|object| failed.forget(&**object));
            Wake::Act(relieved)
        });
        let triggers = stream::select(triggers, relief).filter(move |_| ready(led.is_held()));
        let all = everything(service, store.clone());
        let lanes = Arc::new(Lanes::new(service.load().clone()));
        let departed = Departed { left, failures: Arc::clone(&failures), lanes: Arc::clone(&lanes) };
        let own = fed(primary, feed, departed, leadership.clone());
        let wakes = stream::select_all([own.boxed(), triggers.boxed(), all.map(Wake::Act).boxed()]).boxed();
        let wakes = Arc::clone(&lanes).merge(wakes).map(shared);
        let unknown = Arc::clone(&lanes);
        let (metrics, leadership) = (service.metrics().clone(), leadership.clone());
        let attempts = Arc::new(Attempts { name, metrics, failures, lanes, leadership, context });
        let controller = Controller::for_stream(stream::pending(), store)
            .with_config(Config::default().concurrency(concurrency))
            .reconcile_on(wakes)
            .graceful_shutdown_on(service.shutdown().asked())
            .run(move |object, attempts| attempts.attempt(&object.0, &reconcile), Attempts::back_off, attempts)
            .for_each(move |result| {
                if let Err(controller::Error::ObjectNotFound(object)) = result {
                    unknown.forgets(&object);
                }
                ready(())
            });
        let sweeping = leaving.for_each_concurrent(SWEEPS, |gone| sweep(service, name, orphans.as_deref(), gone));
        join(controller, sweeping).await;
    }
}

async fn stopped_before_ready(service: &Controllers) -> bool {
    tokio::select! {
        () = service.ready().wait() => false,
        () = service.shutdown().asked() => true,
    }
}

/// Who must hear that an object is gone.
struct Departed<K> {
    left: mpsc::UnboundedSender<Arc<K>>,
    failures: Arc<Failures>,
    lanes: Arc<Lanes>,
}

/// Keeps the controller's store up to date and names what is to be reconciled: nothing while this replica stands by. The
/// store comes first, so that a change on the edge of leading is either named here or among everything.
fn fed<K>(
    changes: BoxStream<'static, Delta<K>>,
    mut feed: Feed<K>,
    departed: Departed<K>,
    leadership: Leadership,
) -> impl Stream<Item = Wake<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    changes.filter_map(move |delta| {
        // An object's own status comes back, too: else a stale comparison could leave an old one standing.
        let needs_reconcile = metadata_or_generation_changed(&delta);
        let wake = match (delta.new, delta.old) {
            (Some(object), _) => {
                feed.applied(&object);
                Some(Wake::new(needs_reconcile, ObjectRef::from_obj(&*object)))
            }
            (None, Some(gone)) => {
                feed.deleted(&gone);
                departed.failures.forget(&*gone);
                departed.lanes.forgets(&ObjectRef::from_obj(&*gone));
                // The sweep ends with this stream; what it misses is the garbage collector's.
                let _ = departed.left.unbounded_send(gone);
                None
            }
            (None, None) => None,
        };
        ready(wake.filter(|_| leadership.is_held()))
    })
}

async fn sweep<K>(
    service: &Controllers,
    name: &'static str,
    orphans: Option<&(dyn Fn(&K) -> Plan + Send + Sync)>,
    gone: Arc<K>,
) where
    K: Resource<DynamicType = ()>,
{
    let Some(orphans) = orphans else { return };
    if service.leadership().is_held() {
        clear(service, &service.executor().with_reporting_controller(name), orphans, &*gone).await;
    } else {
        // Another replica sweeps; here the plan is made for whoever makes it to forget the object.
        drop(orphans(&gone));
    }
}

async fn clear<K>(service: &Controllers, executor: &Executor, orphans: &(dyn Fn(&K) -> Plan + Send + Sync), gone: &K)
where
    K: Resource<DynamicType = ()>,
{
    let mut backoff = Backoff::for_objects();
    for _ in 0..SWEEP_ATTEMPTS {
        if is_cleared(executor, orphans, gone).await {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.failed()) => {}
            () = service.shutdown().asked() => return,
        }
    }
}

/// Whether nothing is left to do: the object is there after all, or its children are deleted.
async fn is_cleared<K>(executor: &Executor, orphans: &(dyn Fn(&K) -> Plan + Send + Sync), gone: &K) -> bool
where
    K: Resource<DynamicType = ()>,
{
    let plan = orphans(gone);
    if plan.is_still() {
        return true;
    }
    match executor.is_gone(gone).await {
        Ok(false) => true,
        Ok(true) => executor.carry_out(gone, &plan).await.succeeded(),
        Err(error) => {
            tracing::warn!(name = gone.name_any(), "{}", error_chain(&error));
            false
        }
    }
}

/// What is shared by all reconciliations of one controller.
struct Attempts<C> {
    name: &'static str,
    metrics: Metrics,
    failures: Arc<Failures>,
    lanes: Arc<Lanes>,
    leadership: Leadership,
    context: Arc<C>,
}

impl<C: Send + Sync + 'static> Attempts<C> {
    fn attempt<K, E, F, R>(
        self: Arc<Self>,
        object: &Arc<K>,
        reconcile: &F,
    ) -> impl Future<Output = Result<Action, E>> + Send + 'static + use<C, K, E, F, R>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
        E: Error + Send + 'static,
        F: Fn(Arc<K>, Arc<C>) -> R,
        R: Future<Output = Result<Next, E>> + Send + 'static,
    {
        let leads = self.leadership.is_held();
        // Who stands by does nothing that could be told.
        let span = if leads { self.span(&**object) } else { Span::none() };
        let reconciling = leads.then(|| reconcile(Arc::clone(object), Arc::clone(&self.context)));
        let object = Arc::clone(object);
        let attempt = async move {
            let mut running = self.lanes.begins(&*object);
            let Some(reconciling) = reconciling else { return Ok(Action::await_change()) };
            let mut timer = self.metrics.start_reconcile(self.name);
            let result = running.carry_out(reconciling).await;
            timer.set_result(match &result {
                Ok(Next::Event | Next::Telling(_)) => ReconcileResult::Success,
                Ok(Next::Deadline(_)) => ReconcileResult::RequeueAfter,
                Err(_) => ReconcileResult::Error,
            });
            if result.is_ok() {
                self.failures.forget(&*object);
            } else {
                Span::current().record("otel.status_code", "ERROR");
            }
            result.map(|next| self.come_back(&*object, next))
        };
        attempt.instrument(span)
    }

    fn span<K: Resource>(&self, object: &K) -> Span {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        tracing::info_span!("reconcile", controller = self.name, namespace, name, otel.status_code = Empty)
    }

    /// What is only to be told comes back behind all acts.
    fn come_back<K: Resource>(&self, object: &K, next: Next) -> Action {
        match next {
            Next::Event => Action::await_change(),
            Next::Deadline(delay) => Action::requeue(delay),
            Next::Telling(delay) => {
                self.lanes.tells_after(object, delay);
                Action::await_change()
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature of kube's error policies")]
    fn back_off<K: Resource<DynamicType = ()>, E: Error + 'static>(
        object: Arc<K>,
        error: &E,
        this: Arc<Self>,
    ) -> Action {
        let delay = this.failures.failed(&*object).max(asked_delay(error));
        let (controller, namespace, name) = (this.name, object.namespace(), object.name_any());
        tracing::warn!(controller, namespace, name, ?delay, "reconciliation failed: {}", error_chain(error));
        Action::requeue(delay)
    }
}

/// How long the server asked to be left alone, if that is what the error is about.
fn asked_delay(error: &(dyn Error + 'static)) -> Duration {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(delay) = error.downcast_ref::<ApiError>().and_then(|failure| failure.retry_after) {
            return delay;
        }
        next = error.source();
    }
    Duration::ZERO
}

/// The backoff of each object that fails.
#[derive(Debug, Default)]
struct Failures {
    by_uid: Mutex<BTreeMap<String, Backoff>>,
}

impl Failures {
    fn failed<K: Resource>(&self, object: &K) -> Duration {
        let mut by_uid = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        by_uid.entry(object.uid().unwrap_or_default()).or_insert_with(Backoff::for_objects).failed()
    }

    fn forget<K: Resource>(&self, object: &K) {
        let mut by_uid = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        by_uid.remove(&object.uid().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
