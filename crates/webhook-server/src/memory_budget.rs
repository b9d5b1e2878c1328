//! A memory budget for admission requests. It limits how many bytes of request bodies are in memory at the same time.
//!
//! Almost all requests are small. They have a budget of their own, so that they never wait for large ones.

use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Largest request body in bytes. A review contains up to two objects, and the API server accepts objects of 3 MB.
pub(crate) const MAX_REVIEW_BYTES: usize = 8 << 20;
/// Largest estimated heap size of a parsed body, in bytes. Two objects of the densest JSON that etcd stores take a
/// little less.
const MAX_PARSED_BYTES: usize = 128 << 20;
/// A body of at most this many bytes is small.
const SMALL_BYTES: usize = 64 << 10;
/// Number of small bodies in memory at the same time.
const MAX_SMALL_BODIES: usize = 128;
/// Kilobytes of large bodies in memory at the same time: two of the largest.
const LARGE_BODIES_KILOBYTES: usize = 2 * (MAX_REVIEW_BYTES >> 10);
/// How long a request waits for its permit. It is shorter than the timeout of the API server, so that the response
/// arrives.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Upper bounds of the heap bytes of one field or list item, of a map and of a list. Both allocate several entries at a
/// time.
const ITEM_BYTES: usize = 110;
const MAP_BYTES: usize = 650;
const LIST_BYTES: usize = 150;

/// The budget for request bodies.
pub(crate) struct MemoryBudget {
    small: Semaphore,
    large: Semaphore,
    in_use: IntGauge,
}

/// A part of the budget, in use until the permit is dropped.
pub(crate) struct BudgetPermit<'a> {
    _permit: SemaphorePermit<'a>,
    in_use: &'a IntGauge,
    bytes: i64,
}

impl Drop for BudgetPermit<'_> {
    fn drop(&mut self) {
        self.in_use.sub(self.bytes);
    }
}

impl MemoryBudget {
    /// An unused budget. The gauge shows the bytes in use.
    pub(crate) fn new(in_use: IntGauge) -> Self {
        Self { small: Semaphore::new(MAX_SMALL_BODIES), large: Semaphore::new(LARGE_BODIES_KILOBYTES), in_use }
    }

    /// Waits for a permit for a body of this size, at most [`MAX_REVIEW_BYTES`]. Returns `None` after
    /// [`ACQUIRE_TIMEOUT`].
    pub(crate) async fn acquire(&self, bytes: usize) -> Option<BudgetPermit<'_>> {
        let permit = async {
            if bytes <= SMALL_BYTES {
                return self.small.acquire().await;
            }
            let kilobytes = bytes.div_ceil(1 << 10).min(LARGE_BODIES_KILOBYTES);
            self.large.acquire_many(u32::try_from(kilobytes).unwrap_or(u32::MAX)).await
        };
        let permit = timeout(ACQUIRE_TIMEOUT, permit).await.ok()?.ok()?;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.in_use.add(bytes);
        Some(BudgetPermit { _permit: permit, in_use: &self.in_use, bytes })
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
    use std::future::Future;
    use std::task::Context;

    use futures::FutureExt;
    use futures::task::noop_waker;

    use super::*;

    fn budget() -> MemoryBudget {
        MemoryBudget::new(IntGauge::new("bytes", "bytes").unwrap())
    }

    fn is_pending<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        future.poll_unpin(&mut Context::from_waker(&noop_waker())).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_budget_and_small_bodies_do_not_wait_for_large_ones() {
        let budget = budget();
        let largest = [budget.acquire(MAX_REVIEW_BYTES).await, budget.acquire(MAX_REVIEW_BYTES).await];
        assert!(largest.iter().all(Option::is_some));
        assert!(budget.acquire(SMALL_BYTES).await.is_some(), "a small body waits");
        assert_eq!(usize::try_from(budget.in_use.get()), Ok(2 * MAX_REVIEW_BYTES));
        let mut third = std::pin::pin!(budget.acquire(SMALL_BYTES + 1));
        assert!(is_pending(third.as_mut()));
        drop(largest);
        assert!(third.await.is_some(), "it waits although the budget is unused");
        assert_eq!(budget.in_use.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn acquiring_an_exhausted_budget_times_out() {
        let budget = budget();
        let mut permits = vec![];
        for _ in 0..MAX_SMALL_BODIES {
            permits.push(budget.acquire(1).await);
        }
        assert!(budget.acquire(1).await.is_none(), "the budget has too many permits");
        permits.pop();
        assert!(budget.acquire(1).await.is_some());
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
