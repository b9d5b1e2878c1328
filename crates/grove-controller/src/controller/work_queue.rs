//! The work queue of one controller. It queues each key once, delays keys, and orders them: namespaces take turns, and reconciles come
//! before those with low priority of the same namespace ([`FairQueue`]).
//!
//! A trigger with low priority waits for [`DEBOUNCE`], so that further triggers of the object are merged into it, and until the cooldown of the
//! object has ended: after a reconcile, [`COOLDOWN_FACTOR`] times its duration. So an object whose children change all the time uses at most
//! a tenth of a worker.
//!
//! A key is queued, delayed until a time, or processed by a worker. A trigger that arrives while a worker processes the key marks it as
//! dirty, and [`WorkQueue::done`] enqueues it again. The queue reads no clock: the caller passes the time. Its only side effect is that it
//! counts Prometheus metrics.

mod delayed_keys;
mod fair_queue;

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use self::{delayed_keys::DelayedKeys, fair_queue::FairQueue};
use crate::{requeue::Requeue, work_queue_metrics::QueueMetrics};

/// A trigger with low priority waits this long for further triggers of the same object.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// After a reconcile, the next reconcile of the object with low priority waits this many times its duration.
const COOLDOWN_FACTOR: u32 = 10;
/// The longest cooldown.
const MAX_COOLDOWN: Duration = Duration::from_secs(1);
/// Below this number of cooldowns, the expired ones are not searched.
const MIN_COOLDOWNS: usize = 64;

/// Namespace and name of an object; the namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The order of the keys of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Low,
    Normal,
}

#[derive(Debug)]
pub(super) struct WorkQueue {
    /// Keys that are processed at the same time.
    concurrency: usize,
    metrics: QueueMetrics,
    queue: FairQueue,
    delayed: DelayedKeys,
    /// Keys that workers process, each with the trigger that arrived during the processing.
    processing: BTreeMap<Key, InFlightKey>,
    /// When a reconcile of the key with low priority may run again.
    cooldowns: BTreeMap<Key, Instant>,
    /// Expired cooldowns are dropped when the number of entries reaches this.
    max_cooldowns: usize,
}

/// A key that a worker processes.
#[derive(Debug)]
struct InFlightKey {
    since: Instant,
    dirty: Option<Priority>,
    /// The object was deleted during the processing.
    is_removed: bool,
}

impl WorkQueue {
    pub(super) fn new(concurrency: usize, metrics: QueueMetrics) -> Self {
        Self {
            concurrency,
            metrics,
            queue: FairQueue::default(),
            delayed: DelayedKeys::default(),
            processing: BTreeMap::new(),
            cooldowns: BTreeMap::new(),
            max_cooldowns: MIN_COOLDOWNS,
        }
    }

    /// Enqueues the key. A reconcile with low priority that waits is merged into it.
    pub(super) fn add(&mut self, key: Key, now: Instant) {
        if self.mark_dirty(&key, Priority::Normal) {
            return;
        }
        let was_delayed = self.delayed.remove(&key);
        if self.queue.push(key, Priority::Normal, now) && !was_delayed {
            self.metrics.added();
        }
        self.update_depth();
    }

    /// Enqueues the key with low priority after a debounce, and not before its cooldown ends.
    pub(super) fn add_low_priority(&mut self, key: Key, now: Instant) {
        if !self.mark_dirty(&key, Priority::Low) {
            self.delay(key, now + DEBOUNCE, Priority::Low);
        }
    }

    /// Enqueues the key at the time of `requeue`. If the key is already delayed, the earlier time applies: the reconcile sets the others again.
    pub(super) fn add_after(&mut self, key: Key, requeue: Requeue, now: Instant) {
        let (due, priority) = match requeue {
            Requeue::AwaitChange => return,
            Requeue::After(delay) => (now + delay, Priority::Normal),
            Requeue::StatusAfter(delay) => (now + delay, Priority::Low),
        };
        self.metrics.retried();
        if !self.mark_dirty(&key, priority) {
            self.delay(key, due, priority);
        }
    }

    /// Whether a worker processes the key.
    pub(super) fn is_processing(&self, key: &Key) -> bool {
        self.processing.contains_key(key)
    }

    /// The next key for a worker, if one is free and a key is due.
    pub(super) fn get(&mut self, now: Instant) -> Option<Key> {
        while let Some((key, due, priority)) = self.delayed.pop(now) {
            self.queue.push(key, priority, due);
        }
        let next = if self.processing.len() < self.concurrency { self.queue.pop() } else { None };
        self.update_depth();
        let (key, since) = next?;
        self.metrics.started(now.saturating_duration_since(since), now);
        self.processing.insert(key.clone(), InFlightKey { since: now, dirty: None, is_removed: false });
        Some(key)
    }

    /// When [`WorkQueue::get`] may return another key although nothing else changes.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().filter(|_| self.processing.len() < self.concurrency)
    }

    /// A worker has processed the key. The reconcile took this long.
    pub(super) fn done(&mut self, key: &Key, took: Duration, now: Instant) {
        let Some(InFlightKey { since, dirty, is_removed }) = self.processing.remove(key) else { return };
        self.metrics.finished(since, took);
        if !is_removed {
            self.drop_expired_cooldowns(now);
            let cooldown = took.saturating_mul(COOLDOWN_FACTOR).min(MAX_COOLDOWN);
            if cooldown > DEBOUNCE {
                self.cooldowns.insert(key.clone(), now + cooldown);
            }
            self.metrics.cooldowns().set(self.cooldowns.len());
        }
        match dirty {
            Some(Priority::Normal) => self.add(key.clone(), now),
            Some(Priority::Low) => self.add_low_priority(key.clone(), now),
            None => {}
        }
    }

    /// Drops everything about the key of a deleted object.
    pub(super) fn remove(&mut self, key: &Key) {
        self.delayed.remove(key);
        self.cooldowns.remove(key);
        self.metrics.cooldowns().set(self.cooldowns.len());
        self.queue.remove(key);
        if let Some(processing) = self.processing.get_mut(key) {
            processing.dirty = None;
            processing.is_removed = true;
        }
        self.update_depth();
    }

    /// Whether a worker processes the key. Then it is dirty.
    fn mark_dirty(&mut self, key: &Key, priority: Priority) -> bool {
        let Some(processing) = self.processing.get_mut(key) else { return false };
        processing.dirty = processing.dirty.max(Some(priority));
        true
    }

    /// Delays the key, unless it is queued: a queued reconcile will observe the change.
    fn delay(&mut self, key: Key, due: Instant, priority: Priority) {
        if self.queue.contains(&key) {
            return;
        }
        let cooldown = self.cooldowns.get(&key).filter(|_| priority == Priority::Low);
        let due = cooldown.map_or(due, |cooldown| due.max(*cooldown));
        if self.delayed.insert(key, due, priority) {
            self.metrics.added();
        }
        self.update_depth();
    }

    /// Checks the entries only when their number has doubled, so that a reconcile checks two entries on average.
    fn drop_expired_cooldowns(&mut self, now: Instant) {
        if self.cooldowns.len() >= self.max_cooldowns {
            self.cooldowns.retain(|_, cooldown| *cooldown > now);
            self.max_cooldowns = (2 * self.cooldowns.len()).max(MIN_COOLDOWNS);
        }
    }

    /// Like client-go, the queue counts after deduplication.
    fn update_depth(&self) {
        self.metrics.set_depth(self.queue.count(Priority::Normal), self.queue.count(Priority::Low));
        self.metrics.delayed_keys().set(self.delayed.len());
    }
}

#[cfg(test)]
mod tests;
