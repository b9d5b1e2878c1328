//! Keys that wait for a time. A key has a time of each priority: the deadline of its plan, a status-only trigger, unwritten progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Included, Unbounded},
};

use tokio::time::Instant;

use super::{Key, Priority};

/// [`DelayedKeys::next_status_of`] checks at most this many namespaces.
const MAX_CHECKED_NAMESPACES: usize = 64;

/// Keys in order of time.
type TimeIndex = BTreeSet<(Instant, Key)>;

/// The times for which a key waits. At the first of them it is processed, and then the reconcile decides about the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayedKey {
    /// When it is queued for a reconcile.
    pub(super) reconcile_at: Option<Instant>,
    /// When it is due for a status-only reconcile.
    pub(super) status_at: Option<Instant>,
    /// When its progress is written. A key with `status_at` has none, because the status-only reconcile writes it.
    pub(super) progress: Option<DelayedProgress>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DelayedProgress {
    pub(super) due: Instant,
    /// When it waits no longer for other keys and for the end of a pause.
    pub(super) deadline: Instant,
}

/// The delayed keys, and an index for each of their times.
#[derive(Debug, Default)]
pub(super) struct DelayedKeys {
    by_key: BTreeMap<Key, DelayedKey>,
    reconciles: TimeIndex,
    statuses: TimeIndex,
    progress: TimeIndex,
    progress_deadlines: TimeIndex,
    /// By namespace, without empty indices.
    statuses_by_namespace: BTreeMap<String, TimeIndex>,
    /// The last namespace that [`DelayedKeys::next_status_of`] checked.
    checked_namespace: String,
}

impl DelayedKeys {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The number of keys with a status-only reconcile or with progress.
    pub(super) fn with_status(&self) -> usize {
        self.statuses.len() + self.progress.len()
    }

    /// The number of keys with progress.
    pub(super) fn with_progress(&self) -> usize {
        self.progress.len()
    }

    /// The number of keys of the namespace with a status-only reconcile.
    pub(super) fn statuses_in(&self, namespace: &str) -> usize {
        self.statuses_by_namespace.get(namespace).map_or(0, BTreeSet::len)
    }

    /// Adds the times of a key. If it is already delayed, the earlier time of each priority applies. Returns whether it was.
    pub(super) fn insert(&mut self, key: Key, new: DelayedKey) -> bool {
        let existing = self.remove(&key);
        let delayed = existing.map_or(new, |existing| existing.merge(new));
        for (index, time) in self.indices(delayed) {
            index.insert((time, key.clone()));
        }
        if let Some(time) = delayed.status_at {
            self.statuses_by_namespace.entry(key.namespace.clone()).or_default().insert((time, key.clone()));
        }
        self.by_key.insert(key, delayed);
        existing.is_some()
    }

    /// Removes the key with all its times, and returns them if it was delayed.
    pub(super) fn remove(&mut self, key: &Key) -> Option<DelayedKey> {
        let delayed = self.by_key.remove(key)?;
        for (index, time) in self.indices(delayed) {
            index.remove(&(time, key.clone()));
        }
        if let Some(time) = delayed.status_at
            && let Some(of_namespace) = self.statuses_by_namespace.get_mut(&key.namespace)
        {
            of_namespace.remove(&(time, key.clone()));
            if of_namespace.is_empty() {
                self.statuses_by_namespace.remove(&key.namespace);
            }
        }
        Some(delayed)
    }

    /// The earliest time of this priority.
    pub(super) fn first(&self, priority: Priority) -> Option<Instant> {
        self.index(priority).first().map(|(due, _)| *due)
    }

    /// Removes the key with the earliest time of this priority. Returns the key and the time.
    pub(super) fn pop(&mut self, priority: Priority) -> Option<(Key, Instant)> {
        let (due, key) = self.index(priority).first().cloned()?;
        self.remove(&key);
        Some((key, due))
    }

    /// The earliest deadline of progress.
    pub(super) fn first_progress_deadline(&self) -> Option<Instant> {
        self.progress_deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Removes the key with the earliest deadline of progress. Returns the key and the time at which its progress was due.
    pub(super) fn pop_progress_at_its_deadline(&mut self) -> Option<(Key, Instant)> {
        let (deadline, key) = self.progress_deadlines.first().cloned()?;
        let progress = self.remove(&key).and_then(|delayed| delayed.progress);
        Some((key, progress.map_or(deadline, |progress| progress.due)))
    }

    /// Removes a key that is due for a status-only reconcile, of a selected namespace. The namespaces have turns, and one call checks a few
    /// of them.
    pub(super) fn next_status_of(
        &mut self,
        is_selected: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Option<(Key, Instant)> {
        let all = &self.statuses_by_namespace;
        let last = self.checked_namespace.as_str();
        let behind = all.range::<str, _>((Excluded(last), Unbounded));
        let turns = behind.chain(all.range::<str, _>((Unbounded, Included(last)))).take(MAX_CHECKED_NAMESPACES);
        let (mut checked, mut found) = (None, None);
        for (namespace, statuses) in turns {
            checked = Some(namespace);
            found = statuses.first().filter(|(due, _)| *due <= now && is_selected(namespace)).cloned();
            if found.is_some() {
                break;
            }
        }
        self.checked_namespace = checked.cloned().unwrap_or_default();
        let (due, key) = found?;
        self.remove(&key);
        Some((key, due))
    }

    fn index(&self, priority: Priority) -> &TimeIndex {
        match priority {
            Priority::Reconcile => &self.reconciles,
            Priority::StatusOnly => &self.statuses,
            Priority::Progress => &self.progress,
        }
    }

    /// The indices of a key with these times, each with its time.
    fn indices(&mut self, delayed: DelayedKey) -> impl Iterator<Item = (&mut TimeIndex, Instant)> {
        let DelayedKey { reconcile_at, status_at, progress } = delayed;
        let indices = [
            (&mut self.reconciles, reconcile_at),
            (&mut self.statuses, status_at),
            (&mut self.progress, progress.map(|progress| progress.due)),
            (&mut self.progress_deadlines, progress.map(|progress| progress.deadline)),
        ];
        indices.into_iter().filter_map(|(index, time)| Some((index, time?)))
    }

    /// Whether no index has an entry.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let indices = [&self.reconciles, &self.statuses, &self.progress, &self.progress_deadlines];
        self.by_key.is_empty() && self.statuses_by_namespace.is_empty() && indices.iter().all(|index| index.is_empty())
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
