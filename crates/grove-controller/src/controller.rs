//! A controller: enqueues the objects that triggers name, and reconciles them, several objects at a time.
//!
//! A single task feeds the [`work_queue`] from the triggers and polls the reconciles of the workers.

mod delete_dependents;
mod enqueue_all;
mod rate_limiter;
mod work_queue;
mod worker;

use std::{collections::BTreeMap, error::Error, pin::pin, sync::Arc, time::Duration};

use futures::{
    Stream, StreamExt,
    channel::mpsc,
    future::join,
    stream::{self, BoxStream, FuturesUnordered, SelectAll},
};
use grove_runtime::{
    caches::{Cache, Delta},
    leadership::Leadership,
};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::time::{Instant, sleep_until};

use self::{
    delete_dependents::{OnDeleted, delete_dependents},
    enqueue_all::enqueue_all,
    rate_limiter::FailureRateLimiter,
    work_queue::{Key, WorkQueue},
    worker::{ReconcileOutcome, Worker},
};
use crate::{
    children::{ChildTracker, OwnerKind},
    manager::Manager,
    plan::Plan,
    predicates::metadata_or_generation_changed,
    requeue::Requeue,
    state_metrics::EntryCount,
    triggers::Trigger,
};

/// Inputs that the queue accepts before the controller polls the workers again.
const INPUT_BATCH: usize = 256;
/// A retry is delayed by this, and further retries in this time are merged into it: the quota controller updates
/// `status.used` shortly after a delete.
const RETRY_DEBOUNCE: Duration = Duration::from_millis(500);

/// Builds one controller: its kind, and what triggers a reconcile.
pub struct ControllerBuilder<K: Resource<DynamicType = ()> + 'static> {
    name: &'static str,
    concurrency: u16,
    cache: Cache<K>,
    deltas: BoxStream<'static, Delta<K>>,
    triggers: SelectAll<BoxStream<'static, Trigger<K>>>,
    on_deleted: Option<OnDeleted<K>>,
}

/// An input of the work queue.
enum Input<K: Resource> {
    Delta(Delta<K>),
    Trigger(Trigger<K>),
}

impl<K> ControllerBuilder<K>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    /// A controller of the objects of `cache`. In every controller, these cause a reconcile:
    /// - each of the `deltas` of an object, except for its deletion; a change of only the status triggers one with low priority;
    /// - the begin of leadership, and a change of whether a kind is served: they enqueue all objects (`enqueue_all`);
    /// - the deadline of a plan, the end of a status delay, and the retry of a failed reconcile (`Requeue`, `rate_limiter`).
    pub fn new(name: &'static str, cache: Cache<K>, deltas: impl Stream<Item = Delta<K>> + Send + 'static) -> Self {
        let (deltas, triggers) = (deltas.boxed(), SelectAll::new());
        Self { name, concurrency: 10, cache, deltas, triggers, on_deleted: None }
    }

    /// How many objects are reconciled concurrently; at least 1. One object is never reconciled concurrently with itself.
    /// controller-runtime calls this `MaxConcurrentReconciles`; the services pass `concurrentSyncs` of the configuration.
    #[must_use]
    pub fn concurrency(mut self, objects: u16) -> Self {
        self.concurrency = objects.max(1);
        self
    }

    /// Enqueues the objects that `triggers` name.
    #[must_use]
    pub fn watches<T: Into<Trigger<K>> + 'static>(mut self, triggers: impl Stream<Item = T> + Send + 'static) -> Self {
        self.triggers.push(triggers.map(Into::into).boxed());
        self
    }

    /// Enqueues the owners of children of all kinds: for a change or a deletion of a
    /// child, after a relist, and for the deletion of an object that may release quota for a rejected create.
    #[must_use]
    pub fn owns<O: OwnerKind<Object = K>>(self, children: &ChildTracker<O>) -> Self {
        children.triggers().into_iter().fold(self, Self::watches)
    }

    /// Retries the objects that `objects` names, half a second later and with a new backoff: the cause of their failures may
    /// no longer exist.
    #[must_use]
    pub fn retry_on(self, objects: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        self.watches(objects.map(Trigger::Retry))
    }

    /// After an object was deleted, and a live GET confirmed it, executes the plan that deletes its dependents. A replica
    /// that does not lead calls `plan` too, so that it can drop what the reconciler stores about the object.
    #[must_use]
    pub fn on_deleted(mut self, plan: impl Fn(&K) -> Plan + Send + Sync + 'static) -> Self {
        self.on_deleted = Some(Arc::new(plan));
        self
    }

    /// Waits until all caches of the process are filled, then reconciles until the process is stopped and the reconciles
    /// in progress have ended.
    pub async fn run<C, E, F, R>(self, manager: &Manager, context: Arc<C>, reconcile: F)
    where
        E: Error + 'static,
        F: Fn(Arc<K>, Arc<C>) -> R,
        R: Future<Output = Result<Requeue, E>>,
    {
        let name = self.name;
        if !manager.wait_for_cache_sync().await {
            return;
        }
        self.reconcile_until_stopped(manager, context, reconcile).await;
        tracing::info!(controller = name, "stopped");
    }

    async fn reconcile_until_stopped<C, E, F, R>(self, manager: &Manager, context: Arc<C>, reconcile: F)
    where
        E: Error + 'static,
        F: Fn(Arc<K>, Arc<C>) -> R,
        R: Future<Output = Result<Requeue, E>>,
    {
        let Self { name, concurrency, cache, deltas, triggers, on_deleted } = self;
        tracing::info!(controller = name, concurrency, "reconciling");
        let triggers = stream::select(triggers, enqueue_all(manager, cache.clone()));
        let inputs = stream::select(deltas.map(Input::Delta), triggers.map(Input::Trigger));
        let (deleted, deleted_objects) = mpsc::unbounded();
        let (metrics, rate_limiter) = (manager.metrics().clone(), Arc::new(FailureRateLimiter::default()));
        let queue_metrics = manager.work_queue_metrics().of_queue(name);
        let (failing, deleted_count) = (Arc::clone(&rate_limiter), EntryCount::default());
        manager.state_metrics().add(name, "failing_objects", move || failing.len());
        manager.state_metrics().add_count(name, "cooldowns", queue_metrics.cooldowns());
        manager.state_metrics().add_count(name, "delayed_keys", queue_metrics.delayed_keys());
        manager.state_metrics().add_count(name, "deleted_during_reconcile", &deleted_count);
        let mut controller = Controller {
            leadership: manager.leadership().clone(),
            cache,
            queue: WorkQueue::new(concurrency.into(), queue_metrics),
            rate_limiter: Arc::clone(&rate_limiter),
            deleted,
            deleted_during_reconcile: BTreeMap::new(),
            deleted_count,
        };
        let worker = Worker { controller: name, metrics, rate_limiter };
        let reconciling = async {
            let mut stopped = pin!(manager.shutdown().cancelled());
            let mut inputs = pin!(inputs.ready_chunks(INPUT_BATCH));
            let mut in_progress = FuturesUnordered::new();
            loop {
                while let Some((key, object)) = controller.next_object() {
                    let reconcile = reconcile(Arc::clone(&object), Arc::clone(&context));
                    in_progress.push(worker.reconcile_one(key, object, reconcile));
                }
                tokio::select! {
                    biased;
                    () = &mut stopped => break,
                    Some(outcome) = in_progress.next() => controller.finish(outcome),
                    Some(batch) = inputs.next() => batch.into_iter().for_each(|input| controller.accept(input)),
                    () = sleep_until_some(controller.queue.next_due()) => {}
                }
            }
            while in_progress.next().await.is_some() {}
            // Ends `delete_dependents`, too.
            drop(controller);
        };
        join(reconciling, delete_dependents(manager, name, on_deleted, deleted_objects)).await;
    }
}

/// The state of a running controller.
struct Controller<K> {
    leadership: Leadership,
    cache: Cache<K>,
    queue: WorkQueue,
    rate_limiter: Arc<FailureRateLimiter>,
    deleted: mpsc::UnboundedSender<Arc<K>>,
    /// Objects that were deleted during a reconcile that has not ended.
    deleted_during_reconcile: BTreeMap<Key, Arc<K>>,
    /// Their number, for the metric.
    deleted_count: EntryCount,
}

impl<K: Resource<DynamicType = ()>> Controller<K> {
    /// The next object for a free worker. A replica that does not lead drops what was enqueued while it led.
    fn next_object(&mut self) -> Option<(Key, Arc<K>)> {
        loop {
            let now = Instant::now();
            let key = self.queue.get(now)?;
            match self.cache.get(&key.namespace, &key.name) {
                Some(object) if self.leadership.is_held() => return Some((key, object)),
                Some(_) | None => {
                    self.queue.remove(&key);
                    self.queue.done(&key, Duration::ZERO, now);
                }
            }
        }
    }

    fn finish(&mut self, ReconcileOutcome { key, took, requeue }: ReconcileOutcome) {
        let now = Instant::now();
        self.queue.done(&key, took, now);
        if let Some(object) = self.deleted_during_reconcile.remove(&key) {
            self.deleted_count.set(self.deleted_during_reconcile.len());
            // The reconcile may have created children and stored state after its dependents were deleted.
            self.report_deletion(object);
        } else {
            self.queue.add_after(key, requeue, now);
        }
    }

    fn accept(&mut self, input: Input<K>) {
        match input {
            // A change of the object's own status also enqueues it, so that a status from a stale cache is corrected.
            Input::Delta(delta @ Delta { new: Some(_), .. }) => {
                let needs_reconcile = metadata_or_generation_changed(&delta);
                if let Some(object) = delta.new {
                    self.enqueue(Trigger::new(needs_reconcile, ObjectRef::from_obj(&*object)));
                }
            }
            Input::Delta(Delta { old: Some(object), new: None }) => {
                let key = key(&ObjectRef::from_obj(&*object));
                self.queue.remove(&key);
                if self.queue.is_processing(&key) {
                    self.deleted_during_reconcile.insert(key, Arc::clone(&object));
                    self.deleted_count.set(self.deleted_during_reconcile.len());
                }
                self.report_deletion(object);
            }
            Input::Delta(Delta { old: None, new: None }) => {}
            Input::Trigger(trigger) => self.enqueue(trigger),
        }
    }

    /// Drops the state of a deleted object, and deletes its dependents.
    fn report_deletion(&self, deleted: Arc<K>) {
        self.rate_limiter.forget(&*deleted);
        // `delete_dependents` ends with this controller; Kubernetes' garbage collector deletes the remaining dependents.
        let _ = self.deleted.unbounded_send(deleted);
    }

    fn enqueue(&mut self, trigger: Trigger<K>) {
        if !self.leadership.is_held() {
            return;
        }
        let now = Instant::now();
        match trigger {
            Trigger::Reconcile(object) => self.queue.add(key(&object), now),
            Trigger::LowPriority(object) => self.queue.add_low_priority(key(&object), now),
            Trigger::Retry(object) => {
                let key = key(&object);
                if let Some(object) = self.cache.get(&key.namespace, &key.name) {
                    self.rate_limiter.forget(&*object);
                }
                self.queue.add_after(key, Requeue::After(RETRY_DEBOUNCE), now);
            }
        }
    }
}

fn key<K: Resource>(object: &ObjectRef<K>) -> Key {
    Key { namespace: object.namespace.clone().unwrap_or_default(), name: object.name.clone() }
}

async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
