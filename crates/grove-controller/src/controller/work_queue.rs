//! The work queue of one controller: de-duplicates keys, delays them, and orders reconciles before status-only reconciles and
//! these before writes of progress. Reconciles are in order of arrival within a namespace, and the namespaces have turns. Status-only
//! reconciles and progress are in order of their due time. A status-only reconcile that has waited [`StatusPolicy::max_wait`], and
//! progress at its deadline, run first. Then a status-only reconcile of a namespace without queued reconciles: it does not wait for those
//! of other tenants.
//!
//! A key is in one of these states: queued, delayed until a time, or processed by a worker. A delayed key has a time of each
//! priority. A trigger that arrives while a worker processes the key marks it as dirty, and [`WorkQueue::done`] enqueues it
//! again. The queue reads no clock: the caller passes the time. Its only side effect is that it counts Prometheus metrics.

mod delayed_keys;
mod fair_queue;

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use self::{
    delayed_keys::{DelayedKey, DelayedKeys, DelayedProgress},
    fair_queue::FairQueue,
};
use crate::{requeue::Requeue, status_policy::StatusPolicy, work_queue_metrics::QueueMetrics};

/// Below this number of cooldowns, the expired ones are not searched.
const MIN_COOLDOWNS: usize = 64;

/// Namespace and name of an object; the namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// The key has unwritten progress. It runs behind all others, and not during a pause of progress, but waits for both at most until
    /// its deadline.
    Progress,
    /// Runs behind reconciles, but waits for them at most [`StatusPolicy::max_wait`].
    StatusOnly,
    Reconcile,
}

/// How long a reconcile took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReconcileDuration {
    pub(super) duration: Duration,
    /// The part of the duration in which this process computed.
    pub(super) cpu: Duration,
}

#[derive(Debug)]
pub(super) struct WorkQueue {
    policy: StatusPolicy,
    /// Keys that are processed at the same time.
    concurrency: usize,
    metrics: QueueMetrics,
    /// Keys to reconcile.
    queue: FairQueue,
    delayed: DelayedKeys,
    /// Keys that workers process, each with the trigger that arrived during the processing.
    processing: BTreeMap<Key, InFlightKey>,
    /// When a status-only reconcile of the key may run again.
    cooldowns: BTreeMap<Key, Instant>,
    /// Expired cooldowns are dropped when the number of entries reaches this.
    max_cooldowns: usize,
}

/// A key that a worker processes.
#[derive(Debug)]
struct InFlightKey {
    since: Instant,
    priority: Priority,
    dirty: Option<Priority>,
    /// The object was deleted during the processing.
    is_removed: bool,
}

impl WorkQueue {
    pub(super) fn new(policy: StatusPolicy, concurrency: usize, metrics: QueueMetrics) -> Self {
        Self {
            policy,
            concurrency,
            metrics,
            queue: FairQueue::default(),
            delayed: DelayedKeys::default(),
            processing: BTreeMap::new(),
            cooldowns: BTreeMap::new(),
            max_cooldowns: MIN_COOLDOWNS,
        }
    }

    /// Enqueues the key. A status-only reconcile that waits is merged into it.
    pub(super) fn add(&mut self, key: Key, now: Instant) {
        self.enqueue(key, now);
    }

    /// Enqueues the key for a status-only reconcile after a debounce, and not before its cooldown ends.
    pub(super) fn add_status(&mut self, key: Key, now: Instant) {
        if let Some(processing) = self.processing.get_mut(&key) {
            processing.mark_dirty(Priority::StatusOnly);
            return;
        }
        // A queued reconcile will observe the change.
        if !self.queue.contains(&key) {
            let debounced = now + self.policy.delay(self.delayed.statuses_in(&key.namespace));
            let due = self.cooldowns.get(&key).map_or(debounced, |cooldown| debounced.max(*cooldown));
            self.delay(key, DelayedKey { status_at: Some(due), ..DelayedKey::default() });
        }
    }

    /// Enqueues the key at the times of `requeue`. If the key is already delayed, the earlier time of each priority applies.
    pub(super) fn add_after(&mut self, key: Key, requeue: Requeue, now: Instant) {
        let (priority, delayed) = match requeue {
            Requeue::AwaitChange => return,
            Requeue::After(delay) => {
                (Priority::Reconcile, DelayedKey { reconcile_at: Some(now + delay), ..DelayedKey::default() })
            }
            Requeue::StatusAfter(delay) => {
                (Priority::StatusOnly, DelayedKey { status_at: Some(now + delay), ..DelayedKey::default() })
            }
            Requeue::ProgressAfter { due, deadline, reconcile_after } => {
                let reconcile_at = reconcile_after.map(|delay| now + delay);
                let progress = DelayedProgress { due: now + due, deadline: now + deadline };
                (Priority::Progress, DelayedKey { reconcile_at, status_at: None, progress: Some(progress) })
            }
        };
        self.metrics.retried();
        if let Some(processing) = self.processing.get_mut(&key) {
            processing.mark_dirty(priority);
        } else if !self.queue.contains(&key) {
            self.delay(key, delayed);
        }
    }

    /// Whether a worker processes the key.
    pub(super) fn is_processing(&self, key: &Key) -> bool {
        self.processing.contains_key(key)
    }

    /// The next key for a worker, if one is free and a key is due. Progress is paused until `paused_until`.
    pub(super) fn get(&mut self, now: Instant, paused_until: Option<Instant>) -> Option<Key> {
        while self.delayed.first(Priority::Reconcile).is_some_and(|due| due <= now)
            && let Some((key, due)) = self.delayed.pop(Priority::Reconcile)
        {
            self.push(key, due);
        }
        if self.processing.len() >= self.concurrency {
            return None;
        }
        let (key, since, priority) = self.pop(now, paused_until)?;
        self.metrics.started(now.saturating_duration_since(since), now);
        self.processing.insert(key.clone(), InFlightKey { since: now, priority, dirty: None, is_removed: false });
        self.update_depth();
        Some(key)
    }

    /// The next key that is due, with the time since when it is.
    fn pop(&mut self, now: Instant, paused_until: Option<Instant>) -> Option<(Key, Instant, Priority)> {
        let (status, progress) = (self.due(Priority::StatusOnly, now), self.due(Priority::Progress, now));
        if status.is_some_and(|due| due + self.policy.max_wait <= now) {
            return self.pop_delayed(Priority::StatusOnly);
        }
        if self.has_progress_at_its_deadline(now) {
            let (key, since) = self.delayed.pop_progress_at_its_deadline()?;
            return Some((key, since, Priority::Progress));
        }
        if status.is_some() {
            let is_idle = |namespace: &str| !self.queue.contains_namespace(namespace);
            if let Some((key, since)) = self.delayed.next_status_of(is_idle, now) {
                return Some((key, since, Priority::StatusOnly));
            }
        }
        if let Some((key, since)) = self.queue.pop() {
            return Some((key, since, Priority::Reconcile));
        }
        if status.is_some() {
            return self.pop_delayed(Priority::StatusOnly);
        }
        let is_paused = self.pause_of_progress(paused_until).is_some_and(|until| until > now);
        progress.filter(|_| !is_paused).and_then(|_| self.pop_delayed(Priority::Progress))
    }

    /// When [`WorkQueue::get`] may return another key although nothing else changes.
    pub(super) fn next_due(&self, paused_until: Option<Instant>) -> Option<Instant> {
        if self.processing.len() >= self.concurrency {
            return None;
        }
        let first = |priority| self.delayed.first(priority).filter(|_| self.has_worker(priority));
        let reconcile = self.delayed.first(Priority::Reconcile);
        let (status, progress) = (first(Priority::StatusOnly), first(Priority::Progress));
        let pause = self.pause_of_progress(paused_until);
        let progress = progress.map(|due| pause.map_or(due, |until| until.max(due)));
        let deadline = self.delayed.first_progress_deadline().filter(|_| self.has_worker(Priority::Progress));
        [reconcile, status, progress, deadline].into_iter().flatten().min()
    }

    /// A worker has processed the key.
    pub(super) fn done(&mut self, key: &Key, elapsed: ReconcileDuration, now: Instant) {
        let Some(InFlightKey { since, priority: _, dirty, is_removed }) = self.processing.remove(key) else { return };
        self.metrics.finished(since, elapsed.duration);
        if !is_removed {
            self.drop_expired_cooldowns(now);
            let cooldown = self.policy.cooldown(elapsed.duration, elapsed.cpu);
            if cooldown > self.policy.debounce {
                self.cooldowns.insert(key.clone(), now + cooldown);
            }
            self.metrics.cooldowns().set(self.cooldowns.len());
        }
        match dirty {
            Some(Priority::Reconcile) => self.enqueue(key.clone(), now),
            Some(Priority::StatusOnly | Priority::Progress) => self.add_status(key.clone(), now),
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

    fn enqueue(&mut self, key: Key, since: Instant) {
        if let Some(processing) = self.processing.get_mut(&key) {
            processing.mark_dirty(Priority::Reconcile);
            return;
        }
        let was_delayed = self.delayed.remove(&key).is_some();
        if self.push(key, since) {
            self.count_add(was_delayed);
        }
    }

    /// Returns whether the key was not queued.
    fn push(&mut self, key: Key, since: Instant) -> bool {
        let is_new = self.queue.push(key, since);
        self.update_depth();
        is_new
    }

    fn delay(&mut self, key: Key, new: DelayedKey) {
        let was_delayed = self.delayed.insert(key, new);
        self.count_add(was_delayed);
        self.update_depth();
    }

    /// The end of the pause, unless few keys have progress.
    fn pause_of_progress(&self, paused_until: Option<Instant>) -> Option<Instant> {
        paused_until.filter(|_| self.delayed.with_progress() > self.policy.progress_burst)
    }

    fn has_progress_at_its_deadline(&self, now: Instant) -> bool {
        self.has_worker(Priority::Progress)
            && self.delayed.first_progress_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Counts a key that was neither queued nor delayed. Like client-go, the queue counts after deduplication.
    fn count_add(&self, was_delayed: bool) {
        if !was_delayed {
            self.metrics.added();
        }
    }

    /// Since when a key of this priority is due, if a worker is free for it.
    fn due(&self, priority: Priority, now: Instant) -> Option<Instant> {
        let due = self.delayed.first(priority)?;
        (due <= now && self.has_worker(priority)).then_some(due)
    }

    fn has_worker(&self, priority: Priority) -> bool {
        let concurrency = match priority {
            Priority::Reconcile => self.concurrency,
            Priority::StatusOnly => self.policy.concurrency,
            Priority::Progress => self.policy.progress_concurrency,
        };
        self.processing.values().filter(|processing| processing.priority == priority).count() < concurrency
    }

    fn pop_delayed(&mut self, priority: Priority) -> Option<(Key, Instant, Priority)> {
        let (key, due) = self.delayed.pop(priority)?;
        Some((key, due, priority))
    }

    /// Checks the entries only when their number has doubled, so that a reconcile checks two entries on average.
    fn drop_expired_cooldowns(&mut self, now: Instant) {
        if self.cooldowns.len() >= self.max_cooldowns {
            self.cooldowns.retain(|_, cooldown| *cooldown > now);
            self.max_cooldowns = (2 * self.cooldowns.len()).max(MIN_COOLDOWNS);
        }
    }

    fn update_depth(&self) {
        self.metrics.set_depth(self.queue.len(), self.delayed.with_status());
        self.metrics.delayed_keys().set(self.delayed.len());
    }
}

impl InFlightKey {
    fn mark_dirty(&mut self, priority: Priority) {
        self.dirty = self.dirty.max(Some(priority));
    }
}

#[cfg(test)]
mod tests;
