//! A memory budget for admission requests. It limits how many bytes of request bodies are in memory at the same time.
//!
//! Clients are not authenticated, so a body counts only with the bytes that have arrived, and no body waits for another
//! one. Above the budget, the bodies without progress for the longest time are evicted. The bodies of the API server arrive
//! within milliseconds.

use prometheus::IntGauge;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::lru_pool::{LruPool, PoolEntry, PoolLimits};

/// Largest request body in bytes. A review contains up to two objects, and the API server accepts objects of 3 MB.
pub(crate) const MAX_REVIEW_BYTES: usize = 8 << 20;
/// Largest estimated heap size of a parsed body, in bytes. Two objects of the densest JSON that etcd stores take a
/// little less.
const MAX_PARSED_BYTES: usize = 128 << 20;
/// The parsed form of a body of at most this many bytes never takes too much memory.
const SMALL_BYTES: usize = 64 << 10;
/// Number of bodies in memory at the same time.
pub(crate) const MAX_BODIES: usize = 512;
/// Bytes of bodies in memory at the same time: eight of the largest.
pub(crate) const MAX_BYTES: usize = 8 * MAX_REVIEW_BYTES;

/// Upper bounds of the heap bytes of one field or list item, of a map and of a list. Both allocate several entries at a
/// time.
const ITEM_BYTES: usize = 110;
const MAP_BYTES: usize = 650;
const LIST_BYTES: usize = 150;

/// The budget for request bodies.
pub(crate) struct MemoryBudget {
    bodies: LruPool,
    in_use: IntGauge,
}

/// The memory of one body, in use until it is dropped.
pub(crate) struct BodyMemory<'a> {
    entry: PoolEntry,
    in_use: &'a IntGauge,
    bytes: i64,
}

impl Drop for BodyMemory<'_> {
    fn drop(&mut self) {
        self.in_use.sub(self.bytes);
    }
}

impl MemoryBudget {
    /// An unused budget. The gauge shows the bytes in use.
    pub(crate) fn new(in_use: IntGauge) -> Self {
        Self { bodies: LruPool::new(PoolLimits { entries: MAX_BODIES, bytes: MAX_BYTES }), in_use }
    }

    /// The memory of a body of which no byte has arrived yet.
    pub(crate) fn start_body(&self) -> BodyMemory<'_> {
        BodyMemory { entry: self.bodies.insert(), in_use: &self.in_use, bytes: 0 }
    }
}

impl BodyMemory<'_> {
    /// Records that this many further bytes have arrived. If they exceed the budget, other bodies are evicted.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.entry.record_use(bytes);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.in_use.add(bytes);
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

    #[test]
    fn the_gauge_shows_the_bytes_that_have_arrived() {
        let budget = MemoryBudget::new(IntGauge::new("bytes", "bytes").unwrap());
        let (mut first, mut second) = (budget.start_body(), budget.start_body());
        first.add(3);
        first.add(4);
        second.add(5);
        assert_eq!(budget.in_use.get(), 12);
        drop(first);
        assert_eq!(budget.in_use.get(), 5);
    }

    #[test]
    fn a_body_without_progress_is_evicted_when_others_need_its_memory() {
        let budget = MemoryBudget::new(IntGauge::new("bytes", "bytes").unwrap());
        let mut stalled = budget.start_body();
        stalled.add(1);
        let mut others: Vec<_> = (0..8).map(|_| budget.start_body()).collect();
        for other in &mut others {
            other.add(MAX_REVIEW_BYTES);
        }
        assert!(stalled.evicted().now_or_never().is_some());
        assert!(others.iter().all(|other| other.evicted().now_or_never().is_none()));
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
