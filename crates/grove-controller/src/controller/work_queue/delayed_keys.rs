//! Keys that wait for a time.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{Key, Priority};

/// The delayed keys, each with one time, and an index of the times.
#[derive(Debug, Default)]
pub(super) struct DelayedKeys {
    by_key: BTreeMap<Key, (Instant, Priority)>,
    by_time: BTreeSet<(Instant, Key)>,
}

impl DelayedKeys {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Adds a key. If it is already delayed, the earlier time applies with its priority. Returns whether it was not delayed.
    pub(super) fn insert(&mut self, key: Key, due: Instant, priority: Priority) -> bool {
        let existing = self.by_key.get(&key).copied();
        if existing.is_none_or(|(at, other)| due < at || (due == at && priority > other)) {
            self.remove(&key);
            self.by_time.insert((due, key.clone()));
            self.by_key.insert(key, (due, priority));
        }
        existing.is_none()
    }

    /// Returns whether the key was delayed.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let Some((due, _)) = self.by_key.remove(key) else { return false };
        self.by_time.remove(&(due, key.clone()));
        true
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Removes the key with the earliest time, if the time has come.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Key, Instant, Priority)> {
        let (due, key) = self.by_time.first().filter(|(due, _)| *due <= now).cloned()?;
        let (_, priority) = self.by_key.remove(&key)?;
        self.by_time.remove(&(due, key.clone()));
        Some((key, due, priority))
    }
}
