//! Two lanes into a controller. What may call for an act goes at once; what is only to be told waits a little, and behind
//! all acts, so that one telling covers many changes and no status is written at the cost of what the user waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    hash::Hash,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::load::Load;

/// What is to be told waits at least this long for more of the kind.
const PAUSE: Duration = Duration::from_millis(100);
/// And this many times as long as the object's last reconciliation took, so that an object with many children, or a
/// server that is slow to answer, is not kept busy with tellings.
const SHARE: u32 = 12;
/// And this many times as long as it computed, so that saying where an object with thousands of children is takes a hundredth
/// of a processor, however many they are.
const LABOUR: u32 = 100;
/// And this much longer for each object that waits as well.
const CROWD: Duration = Duration::from_millis(1);
/// But never longer than this, and as long again while there is something to act on.
const LONGEST: Duration = Duration::from_secs(3);
/// Tellings under way at once, and only one while there are acts. A server at leisure takes hundreds in a second so; one
/// that is slow to answer, because it has much to do, gets a pause after each ([`Load`]).
const AT_ONCE: usize = 4;
/// Acts that come in a row are this close together.
const CALM: Duration = Duration::from_millis(300);

/// Why an object is to be reconciled.
pub enum Wake<K: Resource> {
    /// Something may have to be done.
    Act(ObjectRef<K>),
    /// Only what is said of the object may have to change.
    Tell(ObjectRef<K>),
}

impl<K: Resource> Wake<K> {
    /// Wakes the object to act, or only to tell.
    pub fn new(needs_reconcile: bool, object: ObjectRef<K>) -> Self {
        if needs_reconcile { Self::Act(object) } else { Self::Tell(object) }
    }
}

impl<K: Resource> From<ObjectRef<K>> for Wake<K> {
    fn from(object: ObjectRef<K>) -> Self {
        Self::Act(object)
    }
}

/// Namespace and name.
type Key = (String, String);

/// What waits and what runs. Shared by the stream that wakes and by the reconciliations that were woken.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    load: Load,
    state: Mutex<State>,
    /// There may be room for another telling, or one that is due.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Sent to be acted for, and not begun.
    acting: BTreeSet<Key>,
    /// When each may be told.
    waiting: BTreeMap<Key, Instant>,
    by_time: BTreeSet<(Instant, Key)>,
    /// Sent to be told, and not finished.
    telling: BTreeSet<Key>,
    /// How long each is to be left alone after what its last reconciliation took.
    rests: BTreeMap<Key, Duration>,
    /// When an act last came, or began.
    last_act: Option<Instant>,
    /// Nothing is told before, because the server is busy.
    spared_until: Option<Instant>,
}

impl State {
    /// Whoever waits already waits no longer for it.
    fn waits(&mut self, key: Key, due: Instant) {
        if self.waiting.get(&key).is_some_and(|earlier| *earlier <= due) {
            return;
        }
        self.is_covered(&key);
        self.waiting.insert(key.clone(), due);
        self.by_time.insert((due, key));
    }

    fn is_covered(&mut self, key: &Key) {
        if let Some(due) = self.waiting.remove(key) {
            self.by_time.remove(&(due, key.clone()));
        }
    }
}

impl Lanes {
    /// Lanes to a server that is so busy.
    pub(super) fn new(load: Load) -> Self {
        Self { load, ..Self::default() }
    }

    /// The objects to reconcile, in the order in which they should be.
    pub(super) fn merge<K>(
        self: Arc<Self>,
        wakes: BoxStream<'static, Wake<K>>,
    ) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
    where
        K: Resource + 'static,
        K::DynamicType: Clone + Default + Hash + Eq + Send + Sync,
    {
        stream::unfold((self, wakes), |(lanes, mut wakes)| async move {
            loop {
                let next = lanes.next_telling();
                tokio::select! {
                    wake = wakes.next() => match wake? {
                        Wake::Act(object) => {
                            lanes.acts(key(&object));
                            return Some((object, (lanes, wakes)));
                        }
                        Wake::Tell(object) => lanes.tells(key(&object)),
                    },
                    () = wait_until(next) => if let Some((namespace, name)) = lanes.release() {
                        let object = ObjectRef::new(&name);
                        let object = if namespace.is_empty() { object } else { object.within(&namespace) };
                        return Some((object, (lanes, wakes)));
                    },
                    () = lanes.changed.notified() => {}
                }
            }
        })
    }

    /// A reconciliation begins. What is to be told since it was called for waits on: the object may have been read before.
    pub(super) fn begins<K: Resource>(&self, object: &K) -> Running<'_> {
        let key = key_of(object);
        let mut state = self.lock();
        if state.acting.remove(&key) {
            state.last_act = Some(Instant::now());
            self.changed.notify_one();
        }
        drop(state);
        Running { lanes: self, key, began: Instant::now(), computed: Duration::ZERO }
    }

    /// The object is gone, or was never there.
    pub(super) fn forgets<K: Resource>(&self, object: &ObjectRef<K>) {
        let key = key(object);
        let mut state = self.lock();
        state.is_covered(&key);
        state.acting.remove(&key);
        state.telling.remove(&key);
        state.rests.remove(&key);
        self.changed.notify_one();
    }

    /// There is more to tell of the object in a while, if nothing else comes before.
    pub(super) fn tells_after<K: Resource>(&self, object: &K, delay: Duration) {
        self.lock().waits(key_of(object), Instant::now() + delay);
        self.changed.notify_one();
    }

    fn acts(&self, key: Key) {
        let mut state = self.lock();
        state.is_covered(&key);
        state.acting.insert(key);
        state.last_act = Some(Instant::now());
    }

    fn tells(&self, key: Key) {
        let mut state = self.lock();
        let rest = state.rests.get(&key).copied().unwrap_or_default();
        let crowd = CROWD.saturating_mul(u32::try_from(state.waiting.len()).unwrap_or(u32::MAX));
        let due = Instant::now() + rest.max(PAUSE + crowd).min(LONGEST);
        state.waits(key, due);
    }

    /// When the next telling may go, if nothing changes.
    fn next_telling(&self) -> Option<Instant> {
        let state = self.lock();
        let due = state.by_time.first()?.0;
        let due = state.spared_until.map_or(due, |spared| due.max(spared));
        let is_free = state.acting.is_empty();
        match state.telling.len() {
            0 if is_free => Some(due),
            0 => Some(due + LONGEST),
            under_way if under_way < AT_ONCE && is_free => {
                Some(state.last_act.map_or(due, |last_act| due.max(last_act + CALM)))
            }
            _ => None,
        }
    }

    fn release(&self) -> Option<Key> {
        let mut state = self.lock();
        let (_, key) = state.by_time.pop_first()?;
        state.waiting.remove(&key);
        state.telling.insert(key.clone());
        Some(key)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reconciliation under way; it ends when this is dropped.
pub(super) struct Running<'a> {
    lanes: &'a Lanes,
    key: Key,
    began: Instant,
    computed: Duration,
}

impl Running<'_> {
    /// Carries the reconciliation out, and notes for how long it computes.
    pub(super) async fn carry_out<R>(&mut self, reconciling: impl Future<Output = R>) -> R {
        let mut reconciling = pin!(reconciling);
        let polling = poll_fn(|context| {
            let began = Instant::now();
            let polled = reconciling.as_mut().poll(context);
            self.computed += began.elapsed();
            polled
        });
        polling.await
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.lanes.lock();
        let took = self.began.elapsed();
        state.rests.insert(self.key.clone(), (took * SHARE).max(self.computed * LABOUR));
        if state.telling.remove(&self.key) {
            state.spared_until = Some(Instant::now() + self.lanes.load.pause_after(took));
            self.lanes.changed.notify_one();
        }
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn key<K: Resource>(object: &ObjectRef<K>) -> Key {
    (object.namespace.clone().unwrap_or_default(), object.name.clone())
}

fn key_of<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;
