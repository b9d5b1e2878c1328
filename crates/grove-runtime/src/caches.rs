//! One watch per kind: a cache to read from, and the stream of its changes to be woken by.
//!
//! Trouble with a watch stays here: it is logged, counted and tried again, and never reaches a controller, where it
//! would stall all other triggers.

mod indexer;
mod reflector;

use std::{
    fmt::Debug,
    pin::pin,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures::{Stream, channel::mpsc};
use grove_api_types::ownership::is_controlled_by;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{reflector::ObjectRef, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::{
    Notify,
    watch::{Receiver, Sender},
};

use self::{
    indexer::{Indexer, NameWaiter},
    reflector::{Event, Reflector},
};
use crate::{metrics::Metrics, ready::ReadyHandle};

/// What identifies the place of a child among its siblings, so that its successor can be told from it.
pub type Slot<K> = fn(&K) -> Option<String>;

/// Which objects matter. One that ceases to matter counts as gone; of what does not matter, nothing is retained.
pub type Filter<K> = fn(&K) -> bool;

/// What happened to one object: it came (`old` is absent), changed, or went (`new` is absent).
#[derive(Debug)]
pub struct Delta<K> {
    /// The object as it was last seen.
    pub old: Option<Arc<K>>,
    /// The object as it is.
    pub new: Option<Arc<K>>,
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<K> Delta<K> {
    /// The newest state that is known of the object.
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Whether the object went.
    pub fn is_delete(&self) -> bool {
        self.new.is_none()
    }
}

/// The objects of one kind as last seen. Cheap to clone; all clones see the same.
#[derive(Debug)]
pub struct Cache<K> {
    index: Arc<RwLock<Indexer<K>>>,
    served: Sender<bool>,
    relists: Sender<u64>,
    changed: Arc<Notify>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        let (index, changed) = (Arc::clone(&self.index), Arc::clone(&self.changed));
        Self { index, served: self.served.clone(), relists: self.relists.clone(), changed }
    }
}

impl<K> Cache<K> {
    /// The object of that name; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.read().get(namespace, name)
    }

    /// The objects whose controlling owner has that uid, sorted by name.
    pub fn owned_by(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.read().owned_by(owner_uid)
    }

    /// The objects of the namespace that nobody controls, sorted by name.
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read().orphans(namespace)
    }

    /// The object that was last seen deleted, for each slot of the owner.
    pub fn departed(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.read().departed(owner_uid)
    }

    /// Drops what is remembered of the departed children of an owner that is gone itself.
    pub fn forget_owner(&self, owner_uid: &str) {
        self.write().forget_owner(owner_uid);
    }

    /// All objects, sorted by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().all()
    }

    /// Waits until the cache is as `holds` says, which may remember what it need not look at again.
    pub async fn wait_for(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut changed = pin!(self.changed.notified());
        loop {
            // Listening begins before looking, so that no change falls between the two.
            changed.as_mut().enable();
            if holds(self) {
                return;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether the API server knows the kind. Of a kind that it does not know there are no objects; they appear, and so
    /// does this, when it is told of it.
    pub fn is_served(&self) -> bool {
        *self.served.borrow()
    }

    /// Tells when the API server comes to know the kind, or ceases to.
    pub fn subscribe_served(&self) -> Receiver<bool> {
        self.served.subscribe()
    }

    /// How often everything was read anew. What was written before and is still not here when the number grows, is gone or
    /// never came; otherwise its event is on its way.
    pub fn relists(&self) -> Receiver<u64> {
        self.relists.subscribe()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self) -> RwLockReadGuard<'_, Indexer<K>> {
        // No code panics while it holds the lock, and a stale cache would be worse than a half-written entry.
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Indexer<K>> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    /// A cache that no watch feeds, for tests of what reads it.
    pub fn from_objects(objects: impl IntoIterator<Item = K>) -> Self {
        let cache = Self::new(None, None);
        cache.apply_event(Event::Replace(objects.into_iter().collect()));
        cache
    }

    fn new(slot: Option<Slot<K>>, keep: Option<Filter<K>>) -> Self {
        let index = Arc::new(RwLock::new(Indexer::new(slot, keep)));
        Self { index, served: Sender::new(true), relists: Sender::new(0), changed: Arc::default() }
    }

    /// Of the objects with these names beside `owner`, those that it does not control. Their names are wanted by it from
    /// now on: [`Cache::take_name_waiters`] names it when such an object changes or goes.
    pub fn name_conflicts<'a, Owner>(&self, owner: &Owner, names: impl IntoIterator<Item = &'a str>) -> Vec<Arc<K>>
    where
        Owner: Resource<DynamicType = ()>,
    {
        let namespace = owner.namespace().unwrap_or_default();
        let find = |index: &Indexer<K>, name: &str| {
            index.get(&namespace, name).filter(|object| !is_controlled_by(&**object, owner))
        };
        let index = self.read();
        let taken: Vec<_> = names.into_iter().filter(|name| find(&index, name).is_some()).collect();
        drop(index);
        if taken.is_empty() {
            return vec![];
        }
        // Read again under the lock under which interest is noted, so that no change falls between the two.
        let mut index = self.write();
        let found: Vec<_> = taken.into_iter().filter_map(|name| find(&index, name)).collect();
        for object in &found {
            let (kind, name) = (Owner::kind(&()).into_owned(), owner.name_any());
            index.register_name_waiter(
                &namespace,
                &object.name_any(),
                NameWaiter { kind, namespace: namespace.clone(), name },
            );
        }
        found
    }

    /// The owners that want the name of the changed object. Each is named once; to hear of a further change it has to
    /// look again.
    pub fn take_name_waiters<Owner>(&self, delta: &Delta<K>) -> Vec<ObjectRef<Owner>>
    where
        Owner: Resource<DynamicType = ()>,
    {
        let Some(changed) = delta.object() else { return vec![] };
        let waiters = self.write().take_name_waiters(changed, &Owner::kind(&()));
        waiters.into_iter().map(|waiter| ObjectRef::new(&waiter.name).within(&waiter.namespace)).collect()
    }

    fn apply_event(&self, event: Event<K>) -> Vec<Delta<K>> {
        let mut index = self.write();
        match event {
            Event::Replace(objects) => index.replace(objects),
            Event::ReplaceAfterRestore(objects) => index.replace_all(objects),
            Event::NotServed => index.replace(vec![]),
            Event::Error(_) => vec![],
            Event::Apply(object) => index.apply(object),
            Event::Delete(object) => index.remove(object),
        }
    }
}

/// Starts the watch of one kind on its own task. `ready` is told once the first complete list is in the cache, or the API
/// server does not know the kind.
///
/// Only what `keep` says matters is retained, all without it. Judge by what rarely changes: an object that ceases to matter
/// is told as gone.
///
/// Of `config`, the selectors, the page size and the timeout count; lists are always consistent reads. The stream has
/// one change per object of the first list, and after a gap one for everything that differs, what vanished included.
pub fn start_informer<K>(
    api: Api<K>,
    config: watcher::Config,
    ready: ReadyHandle,
    (slot, keep): (Option<Slot<K>>, Option<Filter<K>>),
    metrics: &Metrics,
) -> (Cache<K>, impl Stream<Item = Delta<K>> + Send + Unpin + 'static + use<K>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let cache = Cache::new(slot, keep);
    let (sender, changes) = mpsc::unbounded();
    let mut ready = Some(ready);
    let reflector = Reflector::new(api, K::kind(&()).into_owned(), config, keep, metrics.clone());
    let feed = cache.clone();
    tokio::spawn(reflector.run(move |event| {
        let served = match &event {
            Event::Replace(_) | Event::ReplaceAfterRestore(_) => Some(true),
            Event::NotServed => Some(false),
            Event::Error(_) | Event::Apply(_) | Event::Delete(_) => None,
        };
        if let (Event::Error(trouble), Some(ready)) = (&event, &ready) {
            ready.set_reason(trouble);
        }
        for delta in feed.apply_event(event) {
            // Nobody listening is no reason to let the cache go stale.
            let _ = sender.unbounded_send(delta);
        }
        if served == Some(true) {
            feed.relists.send_modify(|lists| *lists += 1);
        }
        feed.changed.notify_waiters();
        let Some(served) = served else { return };
        feed.served.send_if_modified(|was| std::mem::replace(was, served) != served);
        if let Some(ready) = ready.take() {
            ready.set_ready();
        }
    }));
    (cache, changes)
}

#[cfg(test)]
mod tests;
