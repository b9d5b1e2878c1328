//! A memory budget for admission requests. It limits how many bytes of request bodies are in memory at the same time.
//!
//! Clients are not authenticated. Almost all requests are small, and a small body waits for no other one: above the
//! budget, the bodies without progress for the longest time are evicted. The bodies of the API server arrive within
//! milliseconds. Large bodies have a budget of their own and wait for it.

use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::lru_pool::{LruPool, PoolEntry, PoolLimits};

/// Largest request body in bytes. A review contains up to two objects, and the API server accepts objects of 3 MB.
pub(crate) const MAX_REVIEW_BYTES: usize = 8 << 20;
/// Largest estimated heap size of a parsed body, in bytes. Two objects of the densest JSON that etcd stores take a
/// little less.
const MAX_PARSED_BYTES: usize = 128 << 20;
/// A body of at most this many bytes is small.
const SMALL_BYTES: usize = 64 << 10;
/// Number of bodies in memory at the same time, of both sizes. HTTP/2 buffers up to 64 kilobytes of a large body that
/// waits.
pub(crate) const MAX_BODIES: usize = 512;
/// Bytes of small bodies in memory at the same time.
const MAX_SMALL_BODIES_BYTES: usize = 16 << 20;
/// Kilobytes of large bodies in memory at the same time: two of the largest.
const LARGE_BODIES_KILOBYTES: usize = 2 * (MAX_REVIEW_BYTES >> 10);
/// How long a large body waits for its part of the budget. It is shorter than the timeout of the API server, so that the
/// response arrives.
pub(crate) const RESERVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Upper bounds of the heap bytes of one field or list item, of a map and of a list. Both allocate several entries at a
/// time.
const ITEM_BYTES: usize = 110;
const MAP_BYTES: usize = 650;
const LIST_BYTES: usize = 150;

/// The budget for request bodies.
pub(crate) struct MemoryBudget {
    bodies: LruPool,
    large: Semaphore,
    in_use: IntGauge,
}

/// The memory of one body, in use until it is dropped.
pub(crate) struct BodyMemory<'a> {
    budget: &'a MemoryBudget,
    entry: PoolEntry,
    reservation: Option<SemaphorePermit<'a>>,
    bytes: i64,
}

impl Drop for BodyMemory<'_> {
    fn drop(&mut self) {
        self.budget.in_use.sub(self.bytes);
    }
}

impl MemoryBudget {
    /// An unused budget. The gauges show the bytes in use, and the number of bodies.
    pub(crate) fn new(in_use: IntGauge, bodies: IntGauge) -> Self {
        let bodies = LruPool::new(PoolLimits { entries: MAX_BODIES, bytes: MAX_SMALL_BODIES_BYTES }, bodies);
        Self { bodies, large: Semaphore::new(LARGE_BODIES_KILOBYTES), in_use }
    }

    /// The memory of a body of which no byte has arrived yet.
    pub(crate) fn start_body(&self) -> BodyMemory<'_> {
        BodyMemory { budget: self, entry: self.bodies.insert(), reservation: None, bytes: 0 }
    }
}

impl BodyMemory<'_> {
    /// Reserves memory for a large body of at most this many bytes. A small body needs no reservation. Returns `false`
    /// after [`RESERVE_TIMEOUT`].
    pub(crate) async fn reserve(&mut self, bytes: usize) -> bool {
        if bytes <= SMALL_BYTES {
            return true;
        }
        let kilobytes = bytes.div_ceil(1 << 10).min(LARGE_BODIES_KILOBYTES);
        let permit = self.budget.large.acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX));
        self.reservation = timeout(RESERVE_TIMEOUT, permit).await.ok().and_then(Result::ok);
        if self.is_large() {
            self.count(bytes);
        }
        self.is_large()
    }

    /// Whether the body has a reservation.
    pub(crate) fn is_large(&self) -> bool {
        self.reservation.is_some()
    }

    /// Records that this many further bytes have arrived. If small bodies exceed their budget, others are evicted.
    pub(crate) fn record_progress(&mut self, bytes: usize) {
        // The reservation of a large body already includes them.
        let small_bytes = if self.is_large() { 0 } else { bytes };
        self.entry.record_use(small_bytes);
        self.count(small_bytes);
    }

    fn count(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.budget.in_use.add(bytes);
    }

    /// Completes once newer bodies need the memory of this one.
    pub(crate) fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.entry.evicted()
    }
}

/// Whether the parsed body may take too much memory. A list of tiny objects takes a hundred times the bytes of its
/// JSON.
pub(crate) fn exceeds_limit(body: &[u8]) -> bool {
    body.len() > SMALL_BYTES && estimated_heap_bytes(body) > MAX_PARSED_BYTES
}

/// An upper bound of the memory that the parsed JSON takes.
fn estimated_heap_bytes(body: &[u8]) -> usize {
    let (mut bytes, mut is_string, mut is_escaped, mut previous) = (body.len(), false, false, 0);
    for &byte in body {
        if is_string {
            is_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        bytes += match byte {
            b'{' => MAP_BYTES,
            b'[' => LIST_BYTES,
            b',' => ITEM_BYTES,
            _ => 0,
        };
        match (previous, byte) {
            // Empty maps and lists allocate nothing.
            (b'{', b'}') => bytes -= MAP_BYTES,
            (b'[', b']') => bytes -= LIST_BYTES,
            (_, b'"') => is_string = true,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            previous = byte;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn budget() -> MemoryBudget {
        let gauge = |name: &str| IntGauge::new(name, name).unwrap();
        MemoryBudget::new(gauge("bytes"), gauge("bodies"))
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_budget_and_small_bodies_do_not() {
        let budget = budget();
        let mut largest = [budget.start_body(), budget.start_body()];
        for body in &mut largest {
            assert!(body.reserve(MAX_REVIEW_BYTES).await);
        }
        assert!(budget.start_body().reserve(SMALL_BYTES).await, "a small body waits");
        assert_eq!(usize::try_from(budget.in_use.get()), Ok(2 * MAX_REVIEW_BYTES));
        assert!(!budget.start_body().reserve(SMALL_BYTES + 1).await, "the budget has too many permits");
        let mut third = budget.start_body();
        let (is_reserved, ()) = tokio::join!(third.reserve(SMALL_BYTES + 1), async { drop(largest) });
        assert!(is_reserved, "it waits although the budget is unused");
        drop(third);
        assert_eq!(budget.in_use.get(), 0);
    }

    #[test]
    fn a_small_body_without_progress_is_evicted_when_others_need_its_memory() {
        let budget = budget();
        let mut stalled = budget.start_body();
        stalled.record_progress(1);
        let mut others: Vec<_> = (0..MAX_SMALL_BODIES_BYTES / SMALL_BYTES).map(|_| budget.start_body()).collect();
        for other in &mut others {
            other.record_progress(SMALL_BYTES);
        }
        assert!(stalled.evicted().now_or_never().is_some());
        assert!(others.iter().all(|other| other.evicted().now_or_never().is_none()));
        assert_eq!(usize::try_from(budget.in_use.get()), Ok(MAX_SMALL_BODIES_BYTES + 1));
        drop(stalled);
        assert_eq!(usize::try_from(budget.in_use.get()), Ok(MAX_SMALL_BODIES_BYTES));
    }

    #[test]
    fn the_heap_estimate_counts_maps_lists_and_items() {
        for (text, heap_bytes) in [
            ("", 0),
            (r#""{[,""#, 0),
            (r#""\"{\\""#, 0),
            ("{}", 0),
            ("[ ]", 0),
            (r#"{"a":1}"#, MAP_BYTES),
            (r#"[{"":0},{"":0}]"#, LIST_BYTES + ITEM_BYTES + 2 * MAP_BYTES),
            (r#"{"a":[],"b":{}}"#, MAP_BYTES + ITEM_BYTES),
        ] {
            assert_eq!(estimated_heap_bytes(text.as_bytes()), text.len() + heap_bytes, "{text}");
        }
        // One of the two objects of a review: as dense as possible, and as large as etcd accepts.
        let clique = r#"{"name":"c12345","spec":{"podSpec":{}}},"#;
        assert!(!exceeds_limit(clique.repeat(3_000_000 / clique.len()).as_bytes()));
        assert!(exceeds_limit(r#"{"":0},"#.repeat(MAX_REVIEW_BYTES / 7).as_bytes()));
    }
}
