//! Informers: one list and watch per kind, a cache to read from, and streams of deltas.
//!
//! A failed list or watch is logged, counted and retried here. It reaches no controller, where it would delay the triggers
//! of all other kinds.

mod availability;
mod cache_metrics;
mod index_scope;
mod indexer;
mod informer;
mod informer_options;
mod prerequisite;
mod reflector;
mod sums;
mod unreadable_objects;

use std::{
    fmt::{self, Debug, Formatter},
    pin::pin,
    sync::Arc,
};

use futures::{
    Stream,
    channel::mpsc::{UnboundedSender, unbounded},
};
use grove_api_types::ownership::controller_of;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{
    Notify,
    watch::{Receiver, Sender},
};

pub(crate) use self::informer_options::OBJECTS_PER_PAGE;
pub use self::{
    availability::Availability,
    index_scope::IndexScope,
    indexer::{Filter, Index, IndexFn},
    informer::start_informer,
    informer_options::{DeltaObserver, InformerOptions, Transform},
    sums::Sum,
    unreadable_objects::{DecodedObject, UnreadableObject},
};
use self::{
    indexer::{Indexer, owner_value, parse_owner_value},
    reflector::Event,
    unreadable_objects::UnreadableChanges,
};
use crate::foreign_owners::OwnedObjects;

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

/// The receivers of the changes of a cache.
struct Subscribers<K> {
    deltas: Vec<UnboundedSender<Delta<K>>>,
    unreadable: Vec<UnboundedSender<Arc<UnreadableObject>>>,
}

impl<K> Default for Subscribers<K> {
    fn default() -> Self {
        Self { deltas: vec![], unreadable: vec![] }
    }
}

/// The objects of one kind as the API server last sent them. A clone is another handle of the same cache.
pub struct Cache<K> {
    indexer: Arc<RwLock<Indexer<K>>>,
    observers: Arc<[DeltaObserver<K>]>,
    subscribers: Arc<Mutex<Subscribers<K>>>,
    availability: Sender<Availability>,
    relists: Sender<u64>,
    changed: Arc<Notify>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            indexer: Arc::clone(&self.indexer),
            observers: Arc::clone(&self.observers),
            subscribers: Arc::clone(&self.subscribers),
            availability: self.availability.clone(),
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

    /// The objects of a namespace, sorted by name.
    pub fn of_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.indexer.read().of_namespace(namespace)
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
        subscribers.deltas.push(sender);
        deltas
    }

    /// The unreadable objects that appear, change, are repaired or are deleted from now on. The stream begins with the
    /// unreadable objects that the cache has. If a change replaces the object or its owners, the stream has the old state, too.
    pub fn subscribe_unreadable(&self) -> impl Stream<Item = Arc<UnreadableObject>> + Send + Unpin + 'static + use<K> {
        let mut subscribers = self.subscribers.lock();
        let (sender, objects) = unbounded();
        for object in self.indexer.read().unreadable.all() {
            // The receiver exists, so it gets the object.
            let _ = sender.unbounded_send(Arc::clone(object));
        }
        subscribers.unreadable.push(sender);
        objects
    }

    /// The object of that name, if it exists and could not be decoded. If an earlier state could be decoded, [`get`](Self::get)
    /// returns that state.
    pub fn unreadable(&self, namespace: &str, name: &str) -> Option<Arc<UnreadableObject>> {
        self.indexer.read().unreadable.get(namespace, name).cloned()
    }

    /// The unreadable objects of a namespace that the object with this uid controls.
    pub fn unreadable_owned_by(&self, namespace: &str, owner_uid: &str) -> Vec<Arc<UnreadableObject>> {
        let is_owned = |object: &&Arc<UnreadableObject>| {
            controller_of(&object.metadata).is_some_and(|owner| owner.uid == owner_uid)
        };
        self.indexer.read().unreadable.of_namespace(namespace).filter(is_owned).cloned().collect()
    }

    /// The unreadable objects of a namespace without a controller, or with owner references that could not be decoded.
    pub fn unreadable_orphans(&self, namespace: &str) -> Vec<Arc<UnreadableObject>> {
        let is_orphan = |object: &&Arc<UnreadableObject>| controller_of(&object.metadata).is_none();
        self.indexer.read().unreadable.of_namespace(namespace).filter(is_orphan).cloned().collect()
    }

    /// Whether an object of that name exists, be it readable or not.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        let indexer = self.indexer.read();
        indexer.get(namespace, name).is_some() || indexer.unreadable.get(namespace, name).is_some()
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

    /// Whether an object of that name with this uid exists, be it readable or not.
    pub fn contains_uid(&self, namespace: &str, name: &str, uid: Option<&str>) -> bool {
        let indexer = self.indexer.read();
        let readable = indexer.get(namespace, name).is_some_and(|object| object.meta().uid.as_deref() == uid);
        let unreadable = indexer.unreadable.get(namespace, name);
        readable || unreadable.is_some_and(|object| object.metadata.uid.as_deref() == uid)
    }

    /// The objects that the object with this uid controls, sorted by name. They share its namespace, which is empty for cluster-scoped objects.
    pub fn owned_by(&self, namespace: &str, owner_uid: &str) -> Vec<Arc<K>> {
        self.by_index(&Index::OWNER, &owner_value(namespace, owner_uid))
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

    fn new(
        InformerOptions {
            config: _,
            filter,
            transform: _,
            indices,
            sums,
            observers,
            is_optional: _,
            use_other_version: _,
            prerequisite: _,
        }: InformerOptions<K>,
    ) -> Self {
        let indexer = Arc::new(RwLock::new(Indexer::new(filter, indices).with_sums(sums)));
        let (availability, relists) = (Sender::new(Availability::Served), Sender::new(0));
        let (subscribers, changed) = (Arc::default(), Arc::default());
        Self { indexer, observers: observers.into(), subscribers, availability, relists, changed }
    }
}

impl<K: Resource + Send + Sync> OwnedObjects for Cache<K> {
    fn visit_controllers(&self, visit: &mut dyn FnMut(&str, &str, usize)) {
        for (value, count) in self.indexer.read().values_of(&Index::OWNER) {
            let (namespace, uid) = parse_owner_value(value);
            visit(namespace, uid, count);
        }
    }

    fn visit_objects(&self, visit: &mut dyn FnMut(&str, &str)) {
        for object in self.indexer.read().iter() {
            let metadata = object.meta();
            visit(metadata.namespace.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default());
        }
    }
}

/// Writes to a [`Cache`]. Each method returns the deltas that it caused.
#[derive(Debug)]
pub struct Writer<K>(Cache<K>);

impl<K: Resource> Writer<K> {
    /// Stores a complete list, and removes all other objects.
    pub fn replace(&self, objects: Vec<K>) -> Vec<Delta<K>> {
        self.replace_decoded(objects.into_iter().map(DecodedObject::Readable).collect())
    }

    /// Stores a complete list with unreadable objects, and removes all other objects.
    pub fn replace_decoded(&self, objects: Vec<DecodedObject<K>>) -> Vec<Delta<K>> {
        self.apply_event(Event::Replace(objects)).deltas
    }

    /// Stores an object that was created or changed.
    pub fn apply(&self, object: K) -> Vec<Delta<K>> {
        self.apply_event(Event::Apply(DecodedObject::Readable(object))).deltas
    }

    /// Stores that an object exists that could not be decoded.
    pub fn apply_unreadable(&self, object: UnreadableObject) -> Vec<Delta<K>> {
        self.apply_event(Event::Apply(DecodedObject::Unreadable(Arc::new(object)))).deltas
    }

    /// Removes an object. `object` is its final state.
    pub fn delete(&self, object: K) -> Vec<Delta<K>> {
        self.apply_event(Event::Delete(DecodedObject::Readable(object))).deltas
    }

    fn apply_event(&self, event: Event<K>) -> Changes<K> {
        let mut subscribers = self.0.subscribers.lock();
        let mut indexer = self.0.indexer.write();
        let deltas = match event {
            Event::Replace(objects) => indexer.replace(objects),
            Event::ReplaceAfterRestore(objects) => indexer.replace_after_restore(objects),
            Event::NotServed | Event::Forbidden => indexer.replace(vec![]),
            Event::NotStarted | Event::Error(_) => vec![],
            Event::Apply(object) => indexer.apply(object),
            Event::Delete(object) => indexer.delete(object).into_iter().collect(),
        };
        for delta in &deltas {
            self.0.observers.iter().for_each(|observer| observer(delta));
        }
        let UnreadableChanges { changed, to_log } = indexer.unreadable.take_changes();
        // The observers have seen all deltas before a reader sees one.
        drop(indexer);
        // A subscriber that dropped its stream gets no further deltas.
        subscribers
            .deltas
            .retain(|subscriber| deltas.iter().all(|delta| subscriber.unbounded_send(delta.clone()).is_ok()));
        let sent = |subscriber: &UnboundedSender<_>| {
            changed.iter().all(|object| subscriber.unbounded_send(Arc::clone(object)).is_ok())
        };
        subscribers.unreadable.retain(sent);
        drop(subscribers);
        self.0.changed.notify_waiters();
        Changes { deltas, to_log }
    }
}

/// The result of one event.
struct Changes<K> {
    deltas: Vec<Delta<K>>,
    /// The objects that became unreadable.
    to_log: Vec<Arc<UnreadableObject>>,
}

#[cfg(test)]
mod tests;
