//! A pool with limits. If a new entry exceeds a limit, the pool evicts the least recently used entries. So no entry waits
//! for another one, and a client cannot exclude others by entries that it does not use.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The limits of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    /// Number of entries.
    pub(crate) entries: usize,
    /// Sum of the bytes of all entries.
    pub(crate) bytes: usize,
}

/// A pool of entries. Clones share the same entries.
#[derive(Clone, Debug)]
pub(crate) struct LruPool {
    limits: PoolLimits,
    state: Arc<Mutex<PoolState>>,
    /// The metric with the number of entries.
    size: IntGauge,
}

#[derive(Debug, Default)]
struct PoolState {
    entries: BTreeMap<u64, EntryState>,
    /// The ids of the entries by the number of their last use, the least recently used first.
    ids_by_use: BTreeMap<u64, u64>,
    /// The number of uses so far. The number of the first use of an entry is its id.
    uses: u64,
    /// Sum of the bytes of all entries.
    bytes: usize,
}

#[derive(Debug)]
struct EntryState {
    last_use: u64,
    bytes: usize,
    evicted: CancellationToken,
}

/// An entry of a pool. It leaves the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct PoolEntry {
    pool: LruPool,
    id: u64,
    evicted: CancellationToken,
}

impl LruPool {
    /// An empty pool. The gauge shows the number of its entries.
    pub(crate) fn new(limits: PoolLimits, size: IntGauge) -> Self {
        Self { limits, state: Arc::default(), size }
    }

    /// Adds an entry without bytes.
    pub(crate) fn insert(&self) -> PoolEntry {
        let evicted = CancellationToken::new();
        let mut state = self.state.lock();
        let id = state.next_use();
        state.entries.insert(id, EntryState { last_use: id, bytes: 0, evicted: evicted.clone() });
        state.ids_by_use.insert(id, id);
        state.evict(self.limits);
        self.record_size(&state);
        drop(state);
        PoolEntry { pool: self.clone(), id, evicted }
    }

    fn record_size(&self, state: &PoolState) {
        self.size.set(i64::try_from(state.entries.len()).unwrap_or(i64::MAX));
    }
}

impl PoolState {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn record_use(&mut self, id: u64, more_bytes: usize) {
        let number = self.next_use();
        // An evicted entry is not in the pool any more.
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let previous = std::mem::replace(&mut entry.last_use, number);
        entry.bytes += more_bytes;
        self.bytes += more_bytes;
        self.ids_by_use.remove(&previous);
        self.ids_by_use.insert(number, id);
    }

    fn remove(&mut self, id: u64) -> Option<EntryState> {
        let entry = self.entries.remove(&id)?;
        self.ids_by_use.remove(&entry.last_use);
        self.bytes -= entry.bytes;
        Some(entry)
    }

    fn evict(&mut self, limits: PoolLimits) {
        while self.entries.len() > limits.entries || self.bytes > limits.bytes {
            let least_recently_used = self.ids_by_use.first_key_value().map(|(_, id)| *id);
            let Some(entry) = least_recently_used.and_then(|id| self.remove(id)) else { return };
            entry.evicted.cancel();
        }
    }
}

impl PoolEntry {
    /// Records a use of the entry, which adds this many bytes to it.
    pub(crate) fn record_use(&self, more_bytes: usize) {
        let mut state = self.pool.state.lock();
        state.record_use(self.id, more_bytes);
        state.evict(self.pool.limits);
        self.pool.record_size(&state);
    }

    /// Completes once the pool has evicted the entry.
    pub(crate) fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.remove(self.id);
        self.pool.record_size(&state);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn pool(entries: usize, bytes: usize) -> LruPool {
        LruPool::new(PoolLimits { entries, bytes }, IntGauge::new("entries", "entries").unwrap())
    }

    fn evicted<const N: usize>(entries: [&PoolEntry; N]) -> [bool; N] {
        entries.map(|entry| entry.evicted().now_or_never().is_some())
    }

    #[test]
    fn a_full_pool_evicts_the_least_recently_used_entry() {
        let pool = pool(2, usize::MAX);
        let (first, second) = (pool.insert(), pool.insert());
        first.record_use(0);
        let third = pool.insert();
        assert_eq!(evicted([&first, &second, &third]), [false, true, false]);
        drop(first);
        let fourth = pool.insert();
        assert_eq!(evicted([&third, &fourth]), [false, false], "the dropped entry has left the pool");
        drop(second);
        let fifth = pool.insert();
        assert_eq!(evicted([&third, &fourth, &fifth]), [true, false, false], "the evicted entry left it before");
    }

    #[test]
    fn the_gauge_shows_the_number_of_entries() {
        let pool = pool(2, 100);
        let (first, second) = (pool.insert(), pool.insert());
        assert_eq!(pool.size.get(), 2);
        let third = pool.insert();
        assert_eq!(pool.size.get(), 2, "the first entry is evicted");
        second.record_use(60);
        third.record_use(60);
        assert_eq!(pool.size.get(), 1, "the second entry is evicted");
        drop((first, second));
        assert_eq!(pool.size.get(), 1, "both have left the pool before");
        drop(third);
        assert_eq!(pool.size.get(), 0);
    }

    #[test]
    fn entries_above_the_limit_of_bytes_are_evicted() {
        let pool = pool(10, 100);
        let (first, second, third) = (pool.insert(), pool.insert(), pool.insert());
        first.record_use(40);
        second.record_use(40);
        first.record_use(10);
        third.record_use(20);
        assert_eq!(evicted([&first, &second, &third]), [false, true, false]);
        second.record_use(1000);
        assert_eq!(evicted([&first, &third]), [false, false], "an evicted entry has no bytes in the pool");
        third.record_use(30);
        assert_eq!(evicted([&first, &third]), [false, false]);
        third.record_use(1);
        assert_eq!(evicted([&first, &third]), [true, false]);
    }
}
