//! Informers: one list and watch per kind, a cache to read from, and streams of deltas.
//!
//! A failed list or watch is logged, counted and retried here. It reaches no controller, where it would delay the triggers
//! of all other kinds.

mod indexer;
mod reflector;

use std::{
    fmt::{self, Debug, Formatter},
    pin::pin,
    sync::Arc,
};

use futures::{
    Stream,
    channel::mpsc::{UnboundedSender, unbounded},
};
use kube::{Api, Resource, runtime::watcher};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::{
    Notify,
    watch::{Receiver, Sender},
};

pub use self::indexer::{Index, IndexFn};
use self::{
    indexer::Indexer,
    reflector::{Event, Reflector},
};
use crate::{metrics::Metrics, ready::ReadyHandle};

/// Whether the cache stores an object. An object that does not pass any more counts as deleted.
pub type Filter<K> = fn(&K) -> bool;

/// Receives each delta before it is published. See [`InformerOptions::with_observer`].
pub type DeltaObserver<K> = Arc<dyn Fn(&Delta<K>) + Send + Sync>;

/// One change of one object: a creation has no `old`, a deletion has no `new`. It is like the arguments of a
/// client-go event handler, and unlike an entry of client-go's `DeltaFIFO`, which has no old object.
#[derive(Debug)]
pub struct Delta<K> {
    /// The object before the change. For a deletion: its final state.
    pub old: Option<Arc<K>>,
    /// The object after the change.
    pub new: Option<Arc<K>>,
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<K> Delta<K> {
    /// The newest known state of the object.
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Whether the object was deleted.
    pub fn is_delete(&self) -> bool {
        self.new.is_none()
    }
}

/// What an informer watches and how its cache stores it. By default these are all objects, indexed by their controller.
pub struct InformerOptions<K> {
    config: watcher::Config,
    filter: Option<Filter<K>>,
    indices: Vec<Index<K>>,
    observers: Vec<DeltaObserver<K>>,
}

impl<K> Debug for InformerOptions<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let indices = self.indices.iter().map(|index| index.name).collect::<Vec<_>>();
        f.debug_struct("InformerOptions")
            .field("config", &self.config)
            .field("indices", &indices)
            .finish_non_exhaustive()
    }
}

impl<K: Resource> Default for InformerOptions<K> {
    fn default() -> Self {
        watcher::Config::default().into()
    }
}

impl<K: Resource> From<watcher::Config> for InformerOptions<K> {
    /// The selectors, the page size and the timeout of `config` count. Lists are always consistent reads.
    fn from(config: watcher::Config) -> Self {
        Self { config, filter: None, indices: vec![Index::OWNER], observers: vec![] }
    }
}

impl<K> InformerOptions<K> {
    /// Stores only objects that pass `filter`. An object that does not pass any more counts as deleted, so the filter should
    /// read only what rarely changes.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter<K>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn with_index(mut self, index: Index<K>) -> Self {
        self.indices.push(index);
        self
    }

    /// Adds an observer of deltas. The cache calls it while it is locked: a reader that does not find a deleted object any
    /// more also finds what the observer stored about the deletion. So the observer must be quick, and must not read this
    /// cache, nor another cache whose observer reads this one.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Fn(&Delta<K>) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }
}

/// The objects of one kind as the API server last sent them. A clone is another handle of the same cache.
pub struct Cache<K> {
    indexer: Arc<RwLock<Indexer<K>>>,
    observers: Arc<[DeltaObserver<K>]>,
    subscribers: Arc<Mutex<Vec<UnboundedSender<Delta<K>>>>>,
    served: Sender<bool>,
    relists: Sender<u64>,
    changed: Arc<Notify>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            indexer: Arc::clone(&self.indexer),
            observers: Arc::clone(&self.observers),
            subscribers: Arc::clone(&self.subscribers),
            served: self.served.clone(),
            relists: self.relists.clone(),
            changed: Arc::clone(&self.changed),
        }
    }
}

impl<K> Debug for Cache<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("objects", &self.len()).finish_non_exhaustive()
    }
}

impl<K> Cache<K> {
    /// The object of that name. `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.indexer.read().get(namespace, name)
    }

    /// The objects that have `value` in `index`, sorted by namespace and name. An informer that was started without the
    /// index scans all its objects.
    pub fn by_index(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        self.indexer.read().by_index(index, value)
    }

    /// All objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.indexer.read().all()
    }

    /// The deltas from now on, like an event handler of client-go's shared informer: the stream begins with a creation of
    /// each object that the cache has. A slow reader delays no other, but its unread deltas stay in memory.
    pub fn subscribe(&self) -> impl Stream<Item = Delta<K>> + Send + Unpin + 'static + use<K>
    where
        K: Send + Sync + 'static,
    {
        // The lock keeps the writer from applying an event between the two steps.
        let mut subscribers = self.subscribers.lock();
        let (sender, deltas) = unbounded();
        for object in self.all() {
            // The receiver exists, so it gets the delta.
            let _ = sender.unbounded_send(Delta { old: None, new: Some(object) });
        }
        subscribers.push(sender);
        deltas
    }

    /// Waits until `condition` returns true. It is checked after every change of the cache, and may keep state.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Self) -> bool) {
        let mut changed = pin!(self.changed.notified());
        loop {
            // Subscribes before the check, so that no change between the two is missed.
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.indexer.read().len()
    }

    /// Whether the cache has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the API server serves the kind. The cache of a kind that is not served is empty; it is filled when the kind
    /// is installed.
    pub fn is_served(&self) -> bool {
        *self.served.borrow()
    }

    /// Changes when the kind is installed or removed.
    pub fn subscribe_served(&self) -> Receiver<bool> {
        self.served.subscribe()
    }

    /// The number of complete lists. An object that was written before a list and is not in the cache after it was deleted,
    /// or the write failed. Before that, its watch event may still be pending.
    pub fn relists(&self) -> Receiver<u64> {
        self.relists.subscribe()
    }
}

impl<K: Resource> Cache<K> {
    /// A cache of these objects without a reflector, for tests.
    pub fn from_objects(objects: impl IntoIterator<Item = K>) -> Self {
        let (cache, writer) = Self::with_writer(InformerOptions::default());
        writer.replace(objects.into_iter().collect());
        cache
    }

    /// The objects that the object with this uid controls, sorted by namespace and name.
    pub fn owned_by(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.by_index(&Index::OWNER, owner_uid)
    }

    /// The objects of the namespace without a controller, sorted by name.
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        self.by_index(&Index::ORPHANS, namespace)
    }

    /// A cache and the writer that fills it, like kube's `reflector::store`.
    pub fn with_writer(options: InformerOptions<K>) -> (Self, Writer<K>) {
        let cache = Self::new(options);
        (cache.clone(), Writer(cache))
    }

    fn new(InformerOptions { config: _, filter, indices, observers }: InformerOptions<K>) -> Self {
        let indexer = Arc::new(RwLock::new(Indexer::new(filter, indices)));
        let (served, relists, changed) = (Sender::new(true), Sender::new(0), Arc::default());
        Self { indexer, observers: observers.into(), subscribers: Arc::default(), served, relists, changed }
    }
}

/// Writes to a [`Cache`]. Each method returns the deltas that it caused.
#[derive(Debug)]
pub struct Writer<K>(Cache<K>);

impl<K: Resource> Writer<K> {
    /// Stores a complete list, and removes all other objects.
    pub fn replace(&self, objects: Vec<K>) -> Vec<Delta<K>> {
        self.apply_event(Event::Replace(objects))
    }

    /// Stores an object that was created or changed.
    pub fn apply(&self, object: K) -> Vec<Delta<K>> {
        self.apply_event(Event::Apply(object))
    }

    /// Removes an object. `object` is its final state.
    pub fn delete(&self, object: K) -> Vec<Delta<K>> {
        self.apply_event(Event::Delete(object))
    }

    fn apply_event(&self, event: Event<K>) -> Vec<Delta<K>> {
        let mut subscribers = self.0.subscribers.lock();
        let mut indexer = self.0.indexer.write();
        let deltas = match event {
            Event::Replace(objects) => indexer.replace(objects),
            Event::ReplaceAfterRestore(objects) => indexer.replace_after_restore(objects),
            Event::NotServed => indexer.replace(vec![]),
            Event::Error(_) => vec![],
            Event::Apply(object) => indexer.apply(object),
            Event::Delete(object) => indexer.delete(object).into_iter().collect(),
        };
        for delta in &deltas {
            self.0.observers.iter().for_each(|observer| observer(delta));
        }
        // The observers have seen all deltas before a reader sees one.
        drop(indexer);
        // A subscriber that dropped its stream gets no further deltas.
        subscribers.retain(|subscriber| deltas.iter().all(|delta| subscriber.unbounded_send(delta.clone()).is_ok()));
        deltas
    }
}

/// Starts the informer of one kind on its own task. `ready` completes with the first list, or when the API server does not
/// serve the kind.
///
/// `dyntype` names a kind that is known only at run time; it is `()` for all others. After a gap in the watch,
/// [`Cache::subscribe`] yields one delta for each object that differs or was deleted.
pub fn start_informer<K>(
    api: Api<K>,
    dyntype: &K::DynamicType,
    options: InformerOptions<K>,
    ready: ReadyHandle,
    metrics: &Metrics,
) -> Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let kind = K::kind(dyntype).into_owned();
    let size = metrics.cache_objects(&kind);
    let reflector = Reflector::new(api, kind, options.config.clone(), options.filter, metrics.clone());
    let (cache, writer) = Cache::with_writer(options);
    let mut ready = Some(ready);
    tokio::spawn(reflector.run(move |event| {
        let served = match &event {
            Event::Replace(_) | Event::ReplaceAfterRestore(_) => Some(true),
            Event::NotServed => Some(false),
            Event::Error(_) | Event::Apply(_) | Event::Delete(_) => None,
        };
        if let (Event::Error(error), Some(ready)) = (&event, &ready) {
            ready.set_reason(error);
        }
        writer.apply_event(event);
        let Writer(store) = &writer;
        size.set(store.len().try_into().unwrap_or(i64::MAX));
        if served == Some(true) {
            store.relists.send_modify(|relists| *relists += 1);
        }
        store.changed.notify_waiters();
        let Some(served) = served else { return };
        store.served.send_if_modified(|was| std::mem::replace(was, served) != served);
        if let Some(ready) = ready.take() {
            ready.set_ready();
        }
    }));
    cache
}

#[cfg(test)]
mod tests;
