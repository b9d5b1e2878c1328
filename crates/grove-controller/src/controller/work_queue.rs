//! The work queue of one controller: de-duplicates keys, delays them, and orders reconciles before status-only reconciles and
//! these before writes of progress. Reconciles are in order of arrival, status-only reconciles and progress in order of their due
//! time. A status-only reconcile that has waited [`StatusPolicy::max_wait`], and progress at its deadline, run first.
//!
//! A key is in one of these states: queued, delayed until a time, or processed by a worker. A delayed key has a time of each
//! priority. A trigger that arrives while a worker processes the key marks it as dirty, and [`WorkQueue::done`] enqueues it
//! again. The queue reads no clock: the caller passes the time. Its only side effect is that it counts Prometheus metrics.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{requeue::Requeue, status_policy::StatusPolicy, work_queue_metrics::QueueMetrics};

/// Below this number of cooldowns, the expired ones are not searched.
const MIN_COOLDOWNS: usize = 64;

/// Keys in order of time.
type TimeIndex = BTreeSet<(Instant, Key)>;

/// Namespace and name of an object; the namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// The key has unwritten progress. It runs behind all others, and not while the API server is loaded, but waits for both at
    /// most until its deadline.
    Progress,
    /// Runs behind reconciles, but waits for them at most [`StatusPolicy::max_wait`].
    StatusOnly,
    Reconcile,
}

/// The times for which a key waits. At the first of them it is processed, and then the reconcile decides about the others.
#[derive(Clone, Copy, Debug, Default)]
struct DelayedKey {
    /// When it is queued for a reconcile.
    reconcile_at: Option<Instant>,
    /// When it is due for a status-only reconcile.
    status_at: Option<Instant>,
    /// When its progress is written. A key with `status_at` has none, because the status-only reconcile writes it.
    progress: Option<DelayedProgress>,
}

#[derive(Clone, Copy, Debug)]
struct DelayedProgress {
    due: Instant,
    /// When it waits no longer for other keys and for the load.
    deadline: Instant,
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
    /// Keys to reconcile, in order of arrival, with the time of arrival.
    queue: VecDeque<(Key, Instant)>,
    queued: BTreeSet<Key>,
    delayed: BTreeMap<Key, DelayedKey>,
    /// The delayed keys in order of each of their times.
    due_reconciles: TimeIndex,
    due_statuses: TimeIndex,
    due_progress: TimeIndex,
    progress_deadlines: TimeIndex,
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
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            delayed: BTreeMap::new(),
            due_reconciles: TimeIndex::new(),
            due_statuses: TimeIndex::new(),
            due_progress: TimeIndex::new(),
            progress_deadlines: TimeIndex::new(),
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
        if !self.queued.contains(&key) {
            let debounced = now + self.policy.delay(self.due_statuses.len());
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
        } else if !self.queued.contains(&key) {
            self.delay(key, delayed);
        }
    }

    /// Whether a worker processes the key.
    pub(super) fn is_processing(&self, key: &Key) -> bool {
        self.processing.contains_key(key)
    }

    /// The next key for a worker, if one is free and a key is due. `is_loaded` is whether the API server is loaded.
    pub(super) fn get(&mut self, now: Instant, is_loaded: bool) -> Option<Key> {
        while let Some((due, key)) = self.due_reconciles.first().filter(|(due, _)| *due <= now).cloned() {
            self.remove_delayed(&key);
            self.push(key, due);
        }
        if self.processing.len() >= self.concurrency {
            return None;
        }
        let (status, progress) = (self.due(Priority::StatusOnly, now), self.due(Priority::Progress, now));
        let (key, since, priority) = if status.is_some_and(|due| due + self.policy.max_wait <= now) {
            self.pop_delayed(Priority::StatusOnly)?
        } else if self.has_progress_at_its_deadline(now) {
            self.pop_progress_at_its_deadline()?
        } else if !self.queue.is_empty() {
            self.pop_reconcile()?
        } else if status.is_some() {
            self.pop_delayed(Priority::StatusOnly)?
        } else if progress.is_some() && !is_loaded {
            self.pop_delayed(Priority::Progress)?
        } else {
            return None;
        };
        self.metrics.started(now.saturating_duration_since(since), now);
        self.processing.insert(key.clone(), InFlightKey { since: now, priority, dirty: None, is_removed: false });
        self.update_depth();
        Some(key)
    }

    /// When [`WorkQueue::get`] may return another key although nothing else changes. While the API server is loaded, progress that
    /// is due is checked again after [`StatusPolicy::progress_interval`], and at its deadline; this check only reads a flag.
    pub(super) fn next_due(&self, now: Instant, is_loaded: bool) -> Option<Instant> {
        if self.processing.len() >= self.concurrency {
            return None;
        }
        let first = |index: &TimeIndex| index.first().map(|(due, _)| *due);
        let reconcile = first(&self.due_reconciles);
        let status = first(&self.due_statuses).filter(|_| self.has_worker(Priority::StatusOnly));
        let progress = first(&self.due_progress).filter(|_| self.has_worker(Priority::Progress));
        let progress = progress.map(|due| if is_loaded { due.max(now + self.policy.progress_interval) } else { due });
        let deadline = first(&self.progress_deadlines).filter(|_| self.has_worker(Priority::Progress));
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
        self.remove_delayed(key);
        self.cooldowns.remove(key);
        self.metrics.cooldowns().set(self.cooldowns.len());
        if self.queued.remove(key) {
            self.queue.retain(|(queued, _)| queued != key);
        }
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
        let was_delayed = self.remove_delayed(&key).is_some();
        if self.push(key, since) {
            self.count_add(was_delayed);
        }
    }

    /// Returns whether the key was not queued.
    fn push(&mut self, key: Key, since: Instant) -> bool {
        let is_new = self.queued.insert(key.clone());
        if is_new {
            self.queue.push_back((key, since));
        }
        self.update_depth();
        is_new
    }

    fn delay(&mut self, key: Key, new: DelayedKey) {
        let existing = self.remove_delayed(&key);
        let delayed = existing.map_or(new, |existing| existing.merge(new));
        for (index, time) in self.indices(delayed) {
            index.insert((time, key.clone()));
        }
        self.delayed.insert(key, delayed);
        self.count_add(existing.is_some());
        self.update_depth();
    }

    /// Removes the key with all its times, and returns them if it was delayed.
    fn remove_delayed(&mut self, key: &Key) -> Option<DelayedKey> {
        let delayed = self.delayed.remove(key)?;
        for (index, time) in self.indices(delayed) {
            index.remove(&(time, key.clone()));
        }
        Some(delayed)
    }

    /// The indices of a key with these times, each with its time.
    fn indices(&mut self, delayed: DelayedKey) -> impl Iterator<Item = (&mut TimeIndex, Instant)> {
        let DelayedKey { reconcile_at, status_at, progress } = delayed;
        let indices = [
            (&mut self.due_reconciles, reconcile_at),
            (&mut self.due_statuses, status_at),
            (&mut self.due_progress, progress.map(|progress| progress.due)),
            (&mut self.progress_deadlines, progress.map(|progress| progress.deadline)),
        ];
        indices.into_iter().filter_map(|(index, time)| Some((index, time?)))
    }

    fn has_progress_at_its_deadline(&self, now: Instant) -> bool {
        self.has_worker(Priority::Progress)
            && self.progress_deadlines.first().is_some_and(|(deadline, _)| *deadline <= now)
    }

    fn pop_progress_at_its_deadline(&mut self) -> Option<(Key, Instant, Priority)> {
        let (deadline, key) = self.progress_deadlines.first().cloned()?;
        let progress = self.remove_delayed(&key).and_then(|delayed| delayed.progress);
        Some((key, progress.map_or(deadline, |progress| progress.due), Priority::Progress))
    }

    /// Counts a key that was neither queued nor delayed. Like client-go, the queue counts after deduplication.
    fn count_add(&self, was_delayed: bool) {
        if !was_delayed {
            self.metrics.added();
        }
    }

    fn delayed_keys(&self, priority: Priority) -> &TimeIndex {
        match priority {
            Priority::Reconcile => &self.due_reconciles,
            Priority::StatusOnly => &self.due_statuses,
            Priority::Progress => &self.due_progress,
        }
    }

    /// Since when a key of this priority is due, if a worker is free for it.
    fn due(&self, priority: Priority, now: Instant) -> Option<Instant> {
        let due = self.delayed_keys(priority).first().map(|(due, _)| *due)?;
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
        let (due, key) = self.delayed_keys(priority).first().cloned()?;
        self.remove_delayed(&key);
        Some((key, due, priority))
    }

    fn pop_reconcile(&mut self) -> Option<(Key, Instant, Priority)> {
        let (key, since) = self.queue.pop_front()?;
        self.queued.remove(&key);
        Some((key, since, Priority::Reconcile))
    }

    /// Checks the entries only when their number has doubled, so that a reconcile checks two entries on average.
    fn drop_expired_cooldowns(&mut self, now: Instant) {
        if self.cooldowns.len() >= self.max_cooldowns {
            self.cooldowns.retain(|_, cooldown| *cooldown > now);
            self.max_cooldowns = (2 * self.cooldowns.len()).max(MIN_COOLDOWNS);
        }
    }

    fn update_depth(&self) {
        self.metrics.set_depth(self.queue.len(), self.due_statuses.len() + self.due_progress.len());
        self.metrics.delayed_keys().set(self.delayed.len());
    }
}

impl DelayedKey {
    /// The earlier of each time.
    fn merge(self, other: Self) -> Self {
        let status_at = earlier(self.status_at, other.status_at);
        let progress = match (self.progress, other.progress) {
            (Some(one), Some(two)) => {
                Some(DelayedProgress { due: one.due.min(two.due), deadline: one.deadline.min(two.deadline) })
            }
            (one, two) => one.or(two),
        };
        let progress = progress.filter(|_| status_at.is_none());
        Self { reconcile_at: earlier(self.reconcile_at, other.reconcile_at), status_at, progress }
    }
}

fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(two).min()
}

impl InFlightKey {
    fn mark_dirty(&mut self, priority: Priority) {
        self.dirty = self.dirty.max(Some(priority));
    }
}

#[cfg(test)]
mod tests;
